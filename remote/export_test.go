package remote

import (
	"context"
	"io"
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/acode-dev/acode/session"
)

// MigrateTo is Migrate with other files, of which the last has this version.
func MigrateTo(ctx context.Context, o Options, files fs.FS, version int) (Migrated, error) {
	return migrateTo(ctx, o, schema{files, version}, nil)
}

// ShowPending writes what MigrateTo would do.
func ShowPending(ctx context.Context, o Options, files fs.FS, version int, w io.Writer) (Migrated, error) {
	return migrateTo(ctx, o, schema{files, version}, w)
}

// Classify shows what becomes of an error.
func Classify(err error) *session.SyncFault { return classify(err, scrubber{}) }

// Scrub takes password out of err.
func Scrub(password string, err error) error {
	return newScrubber(&pgconn.Config{Password: password}).wrap(err)
}

// Ways counts the ways to a server that are left.
func Ways(t *testing.T, address string) int {
	t.Helper()
	cfg, err := parse(address, false)
	if err != nil {
		t.Fatal(err)
	}
	return 1 + len(cfg.Fallbacks)
}

// Hold sends the rows of d by COPY and leaves the COPY open until release is called.
func Hold(t *testing.T, address string, d session.Delivery) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	id, err := session.ParseUUID(string(d.Session))
	if err != nil {
		t.Fatal(err)
	}
	f := conn.PgConn().Frontend()
	f.SendQuery(&pgproto3.Query{String: `COPY acode.events (session_id, seq, id, time_us, epoch, type, actor, device, prev, hash, payload) FROM STDIN (FORMAT binary)`})
	data := []byte(copyHeader)
	for i := range d.Events {
		data = appendRow(data, id, d, i)
	}
	f.Send(&pgproto3.CopyData{Data: data})
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().ReceiveMessage(t.Context()); err != nil { // it has begun
		t.Fatal(err)
	}
	return func() { _ = conn.PgConn().Conn().Close() }
}

package remote_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

func options(address string) remote.Options { return remote.Options{URL: address, Now: time.Now} }

// A dry run shows the SQL and changes nothing; the second migration finds nothing to do.
func TestMigrate(t *testing.T) {
	address := pgtest.Database(t)
	const state = `SELECT count(*) || ' ' || (SELECT count(*) FROM pg_proc) FROM pg_class`
	before := pgtest.Psql(t, address, state)
	var shown bytes.Buffer
	m, err := remote.Migrate(t.Context(), options(address), &shown)
	if err != nil || m.From != 0 || m.To != migrations.PostgresVersion {
		t.Fatalf("Migrate, dry: got %+v, %v", m, err)
	}
	if !strings.Contains(shown.String(), "CREATE TABLE acode.events") || !strings.Contains(shown.String(), "CREATE ROLE") {
		t.Errorf("Migrate, dry: does not show the SQL:\n%s", shown.String())
	}
	if after := pgtest.Psql(t, address, state); after != before {
		t.Errorf("Migrate, dry: changed the database: %s, was %s", after, before)
	}
	for i, from := range []int{0, migrations.PostgresVersion} {
		if m, err = remote.Migrate(t.Context(), options(address), nil); err != nil || m.From != from || m.To != migrations.PostgresVersion {
			t.Fatalf("Migrate %d: got %+v, %v, want from %d", i, m, err, from)
		}
	}
	shown.Reset()
	if _, err = remote.Migrate(t.Context(), options(address), &shown); err != nil || shown.String() != "-- projection functions\n"+migrations.PostgresProjection()+"\n" {
		t.Errorf("Migrate, dry, when the schema is up to date: got %q, %v, want the projection functions", shown.String(), err)
	}
	if got := pgtest.Psql(t, address, `SELECT schema_version FROM acode.meta`); got != fmt.Sprint(migrations.PostgresVersion) {
		t.Errorf("meta: version %s, want %d", got, migrations.PostgresVersion)
	}
	if got := pgtest.Psql(t, address, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'acode.events'::regclass`); got != "13" {
		t.Errorf("%s partitions, want this month's and 12 ahead", got)
	}
}

// later returns our migrations, followed by files from names and SQL.
func later(t *testing.T, more ...string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Postgres(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(migrations.Postgres(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: b}
	}
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = &fstest.MapFile{Data: []byte("-- +goose Up\nSET LOCAL ROLE acode_owner;\n" + more[i+1] + "RESET ROLE;\n")}
	}
	return files
}

// A later version migrates a server with sessions, a fork and content: the server keeps
// all of it, continues and verifies. A migration that fails changes nothing, and the one
// before it stays.
func TestMigrateForward(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	one, two := newChain(20).acquire().grow(9), newChain(15)
	other := one.split(25)
	other.grow(2)
	hash, content := blob(5000)
	if err := r.PutBlob(t.Context(), hash, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []session.Delivery{one.from(1, 30), two.from(1, 15), other.from(26, 27)} {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	next := migrations.PostgresVersion + 1
	good, bad := fmt.Sprintf("%04d_add_labels.sql", next), fmt.Sprintf("%04d_fail.sql", next+1)
	files := later(t, good, fmt.Sprintf("ALTER TABLE acode.heads ADD COLUMN label text NOT NULL DEFAULT 'old';\nUPDATE acode.meta SET schema_version = %d;\n", next),
		bad, "ALTER TABLE acode.heads ADD COLUMN half text;\nSELECT 1 / 0;\n")
	var shown bytes.Buffer
	if m, err := remote.ShowPending(t.Context(), options(s.url), files, next+1, &shown); err != nil || m.From != next-1 || m.To != next+1 ||
		!strings.Contains(shown.String(), good) || strings.Contains(shown.String(), "CREATE TABLE acode.heads") {
		t.Errorf("dry run: got %+v, %v, %s", m, err, shown.String())
	}
	if _, err := remote.MigrateTo(t.Context(), options(s.url), files, next+1); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("a migration that fails: got %v", err)
	}
	const state = `SELECT (SELECT schema_version FROM acode.meta) || ' ' || (SELECT count(*) FROM acode.heads WHERE label = 'old') || ' '
		|| (SELECT count(*) FROM information_schema.columns WHERE table_schema = 'acode' AND column_name = 'half')`
	if got, want := s.value(state), fmt.Sprintf("%d 2 0", next); got != want {
		t.Errorf("after it: got %s, want %s", got, want)
	}
	delete(files, bad)
	if m, err := remote.MigrateTo(t.Context(), options(s.url), files, next); err != nil || m != (remote.Migrated{From: next, To: next}) {
		t.Errorf("a second time: got %+v, %v", m, err)
	}
	if _, err := remote.Migrate(t.Context(), options(s.url), nil); !errors.Is(err, session.ErrRemoteOld) {
		t.Errorf("Migrate of a newer server: got %v, want %v", err, session.ErrRemoteOld)
	}

	// This program still delivers to it.
	one.grow(1)
	if m, err := r.Deliver(t.Context(), one.from(31, 31)); err != nil || m.Seq != 31 || m.Verdict != session.DeliveryTaken {
		t.Errorf("Deliver: got %+v, %v", m, err)
	}
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	c, err := remote.VerifyAll(t.Context(), options(s.url))
	if err != nil || len(c.Differences) > 0 || c.Sessions != 2 || c.Events != 46 || c.Forks != 2 || c.Blobs != 1 {
		t.Errorf("VerifyAll: got %+v, %v", c, err)
	}
}

// Two migrations at once both succeed, and each file is applied once.
func TestMigrateTwiceAtOnce(t *testing.T) {
	address := pgtest.Database(t)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { _, errs[i] = remote.Migrate(t.Context(), options(address), nil) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	const applied = `SELECT count(*) || ' ' || count(DISTINCT version_id) FROM acode.goose_db_version`
	// one row is goose's own
	n := migrations.PostgresVersion + 1
	if got := pgtest.Psql(t, address, applied); got != fmt.Sprintf("%d %d", n, n) {
		t.Errorf("applied: got %s, want %d, each once", got, n)
	}
}

// The role of a managed database is no superuser.
func TestMigrateAsOwner(t *testing.T) {
	s := &site{t: t, url: pgtest.Database(t)}
	s.exec(`DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'acode_owner') THEN CREATE ROLE acode_owner; CREATE ROLE acode_writer; CREATE ROLE acode_reader; END IF; END $$`)
	owner := s.role("acode_owner")
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(fmt.Sprintf(`ALTER ROLE %s CREATEROLE; GRANT CREATE ON DATABASE %s TO %[1]s`, u.User.Username(), strings.TrimPrefix(u.Path, "/")))
	t.Cleanup(func() {
		s.exec(fmt.Sprintf(`DROP SCHEMA acode CASCADE; DROP OWNED BY %s`, u.User.Username()))
	})
	if _, err := remote.Migrate(t.Context(), options(owner), nil); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	if _, err := s.open(s.role("acode_writer")).Hello(t.Context(), device); err != nil {
		t.Errorf("Hello: %v", err)
	}
}

// The server's defaults for backslashes and times have no effect.
func TestOddDefaults(t *testing.T) {
	s := &site{t: t, url: pgtest.Database(t)}
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{`standard_conforming_strings = off`, `escape_string_warning = off`, `DateStyle = German`, `TimeZone = 'Asia/Kolkata'`, `IntervalStyle = sql_standard`,
		`bytea_output = escape`, `default_transaction_isolation = serializable`, `search_path = ''`} {
		s.exec(fmt.Sprintf(`ALTER DATABASE %s SET %s`, strings.TrimPrefix(u.Path, "/"), set))
	}
	if _, err := remote.Migrate(t.Context(), options(s.url), nil); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	r := s.open(s.role("acode_writer"))
	c := newChain(2)
	c.add(session.StepCompleted, 0, fmt.Appendf(nil, `{"task":"t","step":"s","key":"v1:%s:t/s/main:1","attempt":1,"message":"a\u0000b\\u0000"}`, c.id))
	if _, err := r.Deliver(t.Context(), c.from(1, 3)); err != nil {
		t.Fatalf("Deliver: %v", err)
	}
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	if got := s.value(`SELECT encode(convert_to(message, 'UTF8'), 'hex') FROM acode_views.steps`); got != fmt.Sprintf("%x", "a\ufffdb\\u0000") {
		t.Errorf("message: got %s, want the character replaced and the text of an escape kept", got)
	}
	if got, err := remote.VerifyAll(t.Context(), options(s.url)); err != nil || got.Events != 3 || len(got.Differences) != 0 {
		t.Errorf("VerifyAll: got %+v, %v, want no difference", got, err)
	}
	if got, err := remote.ReadStatus(t.Context(), options(s.url)); err != nil || got.Unverified != 0 || len(got.Machines) != 1 || got.Machines[0].Last.IsZero() {
		t.Errorf("ReadStatus: got %+v, %v", got, err)
	}
	if got, err := remote.ListDevices(t.Context(), options(s.url)); err != nil || len(got) == 0 {
		t.Errorf("ListDevices: got %+v, %v", got, err)
	}
}

// A role without rights gets an error, and the server stays as it was.
func TestMigrateRefused(t *testing.T) {
	s := newSite(t)
	empty := pgtest.Database(t)
	writer := s.role("acode_writer")
	u, err := url.Parse(writer)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(empty)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = other.Path
	if _, err := remote.Migrate(t.Context(), options(u.String()), nil); !errors.Is(err, session.ErrRemoteAuth) {
		t.Errorf("Migrate as a device: got %v, want %v", err, session.ErrRemoteAuth)
	}
	s.exec(`INSERT INTO acode.goose_db_version (version_id, is_applied) VALUES (999, true)`)
	if _, err := remote.Migrate(t.Context(), options(s.url), nil); !errors.Is(err, session.ErrRemoteOld) {
		t.Errorf("Migrate of a newer server: got %v, want %v", err, session.ErrRemoteOld)
	}
	if _, err := remote.Migrate(t.Context(), options(s.url), io.Discard); !errors.Is(err, session.ErrRemoteOld) {
		t.Errorf("Migrate of a newer server, dry: got %v, want %v", err, session.ErrRemoteOld)
	}
	u.User = url.UserPassword("nobody_of_ours", "secret-pass-word")
	u.Host = "127.0.0.1:1"
	if _, err := remote.Migrate(t.Context(), options(u.String()), nil); !errors.Is(err, session.ErrOffline) || strings.Contains(err.Error(), "secret-pass-word") {
		t.Errorf("Migrate without a server: got %v, want %v without password", err, session.ErrOffline)
	}
}

// Laptops never migrate: an older or newer server is a state, and no event is lost.
func TestVersions(t *testing.T) {
	s := &site{t: t, url: pgtest.Database(t)}
	_, err := s.open(s.url).Hello(t.Context(), device)
	wantClass(t, "Hello of an unmigrated server", err, session.FaultUnmigrated)
	_, err = s.open(s.url).Deliver(t.Context(), newChain(1).from(1, 1))
	wantClass(t, "Deliver to an unmigrated server", err, session.FaultUnmigrated)

	if _, err := remote.Migrate(t.Context(), options(s.url), nil); err != nil {
		t.Fatal(err)
	}
	r := s.open(s.role("acode_writer"))
	s.exec(`UPDATE acode.meta SET schema_version = schema_version + 3`)
	if h, err := r.Hello(t.Context(), device); err != nil {
		t.Errorf("Hello of a newer server that serves us: got %+v, %v", h, err)
	}
	s.exec(fmt.Sprintf(`UPDATE acode.meta SET oldest_client = %d`, migrations.PostgresVersion+1))
	_, err = r.Hello(t.Context(), device)
	wantClass(t, "Hello of a server that is too new", err, session.FaultTooNew)
	s.exec(`UPDATE acode.meta SET schema_version = 0`)
	_, err = r.Hello(t.Context(), device)
	wantClass(t, "Hello of an older server", err, session.FaultUnmigrated)
}

func wantClass(t *testing.T, what string, err error, want session.SyncFaultClass) {
	t.Helper()
	var f *session.SyncFault
	if !errors.As(err, &f) || f.Class != want {
		t.Errorf("%s: got %v, want class %s", what, err, want)
	}
}

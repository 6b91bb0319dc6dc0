package remote_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// A corrected password file applies from the next attempt on, without a restart.
func TestPasswordFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	t.Setenv("PGPASSFILE", file)
	t.Setenv("PGPASSWORD", "")
	given := make(chan string, 16)
	r, err := remote.Open(remote.Options{URL: "postgres://u@" + doorman(t, given) + "/d?sslmode=disable", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, want := range []string{"old-geheim", "new-geheim"} {
		if err := os.WriteFile(file, []byte("*:*:*:*:"+want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = r.Hello(t.Context(), device)
		wantClass(t, "Hello with "+want, err, session.FaultAuth)
		if got := <-given; got != want {
			t.Errorf("Hello: gave the password %q, want %q", got, want)
		}
	}
}

// doorman requests the password from every client, reports it, and lets no client in.
func doorman(t *testing.T, given chan<- string) string {
	t.Helper()
	return listening(t, func(conn net.Conn) {
		b := pgproto3.NewBackend(conn, conn)
		_, _ = b.ReceiveStartupMessage()
		b.Send(&pgproto3.AuthenticationCleartextPassword{})
		_ = b.Flush()
		_ = b.SetAuthType(pgproto3.AuthTypeCleartextPassword)
		if m, err := b.Receive(); err == nil {
			if p, ok := m.(*pgproto3.PasswordMessage); ok {
				given <- p.Password
			}
		}
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "28P01", Message: "no"})
		_ = b.Flush()
	})
}

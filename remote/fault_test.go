package remote_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

func wantState(t *testing.T, what string, err error, state string) {
	t.Helper()
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != state {
		t.Errorf("%s: got %v, want SQLSTATE %s", what, err, state)
	}
}

// FR-051: only an SQLSTATE that is the row's fault counts an attempt.
func TestClasses(t *testing.T) {
	for class, states := range map[session.SyncFaultClass]string{
		session.FaultServer:     "57P01 57P02 57P03 58P01 53000 53200 53300 40001 40P01 55P03 57014 58030 XX000 XX001 25P02 25P03 0A000 26000 P0001 57000 zz",
		session.FaultOffline:    "08000 08006 08P01",
		session.FaultReadOnly:   "25006",
		session.FaultDiskFull:   "53100",
		session.FaultAuth:       "28000 28P01 42501",
		session.FaultUnmigrated: "42P01 42703 42883 3F000 3D000",
		session.FaultRefused:    "22021 22P02 23502 23505 23514 54000 AC001 AC004 AC005",
	} {
		for state := range strings.FieldsSeq(states) {
			pe := &pgconn.PgError{Code: state, SeverityUnlocalized: "ERROR", ConstraintName: "x"}
			f := remote.Classify(pe)
			if f.Class != class || !f.Safe || f.SQLState != state {
				t.Errorf("%s: got %+v, want class %s that took nothing", state, f, class)
			}
		}
	}
	if f := remote.Classify(&pgconn.PgError{Code: "23514", TableName: "events"}); f.Class != session.FaultServer {
		t.Errorf("a missing partition: got %s, want the server's fault", f.Class)
	}
	if f := remote.Classify(&pgconn.PgError{Code: "57P01", SeverityUnlocalized: "FATAL"}); f.Safe {
		t.Errorf("an ended connection: its outcome is unknown, got safe")
	}
}

// A missing partition is the server's trouble, and the row is not parked. If there was no
// delivery for a year all partitions are of past months, and the next client has new ones
// made.
func TestMissingPartition(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	for name, deliver := range map[string]func(context.Context, session.Delivery) (session.Mark, error){"Deliver": r.Deliver} {
		s.exec(`DO $$ BEGIN EXECUTE 'DROP TABLE acode.events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM'); END $$`)
		c := newChain(1)
		_, err := deliver(t.Context(), c.from(1, 1))
		wantClass(t, name+" without partition", err, session.FaultServer)
		if m, err := deliver(t.Context(), c.from(1, 1)); err != nil || m.Seq != 1 {
			t.Errorf("%s again: got %+v, %v", name, m, err)
		}
	}
}

// S3: the server gives up before the client does, and the connection lives.
func TestStatementTimeout(t *testing.T) {
	s := commonSite(t)
	mine := s.role("acode_writer")
	c := newChain(4)
	// the first call is slow
	if _, err := s.open(mine).Deliver(t.Context(), c.from(1, 2)); err != nil {
		t.Fatal(err)
	}
	r, err := remote.Open(remote.Options{URL: mine, Now: time.Now, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	release := lockHeads(t, s.url)
	_, err = r.Deliver(t.Context(), c.from(3, 4))
	wantState(t, "Deliver", err, "57014")
	wantClass(t, "Deliver", err, session.FaultServer)
	release()
	if m, err := r.Deliver(t.Context(), c.from(3, 4)); err != nil || m.Seq != 4 {
		t.Errorf("Deliver afterwards: got %+v, %v", m, err)
	}
}

// lockHeads keeps every head locked until release is called.
func lockHeads(t *testing.T, address string) (release func()) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT 1 FROM acode.heads FOR UPDATE`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close(context.Background()) }
}

// A context that ends stops the call within its deadline, even if the network is silent.
func TestSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r, err := remote.Open(remote.Options{URL: "postgres://u:secret-pass-word@" + l.Addr().String() + "/d?sslmode=disable", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = r.Hello(ctx, device)
	wantClass(t, "Hello to silence", err, session.FaultOffline)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Hello: got %v, want the deadline", err)
	}
}

// A call that is cut off while it waits for the answer is offline and of unknown outcome.
// The next one uses another connection.
func TestCancelledWhileWaiting(t *testing.T) {
	s := commonSite(t)
	r := s.open(s.role("acode_writer"))
	c := newChain(4)
	if _, err := r.Deliver(t.Context(), c.from(1, 2)); err != nil {
		t.Fatal(err)
	}
	release := lockHeads(t, s.url)
	for name, send := range map[string]func(context.Context, session.Delivery) (session.Mark, error){"Deliver": r.Deliver} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := send(ctx, c.from(3, 4))
		cancel()
		var f *session.SyncFault
		if !errors.As(err, &f) || f.Class != session.FaultOffline || f.Safe {
			t.Errorf("%s: got %v, want offline and unknown", name, err)
		}
	}
	release()
	if m, err := r.Deliver(t.Context(), c.from(1, 4)); err != nil || m.Seq != 4 {
		t.Errorf("Deliver afterwards: got %+v, %v", m, err)
	}
}

// A connection whose call was cancelled while the server was silent does not delay Close,
// and with it the end of the syncer.
func TestCloseBesideSilence(t *testing.T) {
	s := commonSite(t)
	direct, err := url.Parse(s.role("acode_writer"))
	if err != nil {
		t.Fatal(err)
	}
	p := pgwire.New(t, direct.Host)
	address, err := p.URL(direct.String())
	if err != nil {
		t.Fatal(err)
	}
	r := s.open(address)
	c := newChain(2)
	if _, err := r.Deliver(t.Context(), c.from(1, 1)); err != nil {
		t.Fatal(err)
	}
	p.Set(pgwire.Hole())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Deliver(ctx, c.from(2, 2)); err == nil {
		t.Fatal("Deliver into a black hole: got no error")
	}
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	select {
	case <-closed:
	case <-time.After(4 * time.Second):
		t.Error("Close: still waits for a server that does not answer")
	}
}

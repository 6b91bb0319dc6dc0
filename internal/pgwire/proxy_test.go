package pgwire_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/jackc/pgx/v5"
)

// place is a database with a table of one column, reached directly and by way of a proxy.
type place struct {
	proxy  *pgwire.Proxy
	url    string
	direct *pgx.Conn
}

func newPlace(t *testing.T) *place {
	t.Helper()
	address := pgtest.Database(t)
	conf, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { direct.Close(context.Background()) })
	if _, err := direct.Exec(t.Context(), "CREATE TABLE t (n bigint)"); err != nil {
		t.Fatal(err)
	}
	p := pgwire.New(t, strings.Split(strings.SplitAfter(address, "@")[1], "/")[0])
	through, err := p.URL(address)
	if err != nil {
		t.Fatal(err)
	}
	return &place{p, through, direct}
}

// connect connects by way of the proxy.
func (p *place) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// rows counts the rows of a number on the server.
func (p *place) rows(t *testing.T, n int64) (rows int) {
	t.Helper()
	if err := p.direct.QueryRow(t.Context(), "SELECT count(*) FROM t WHERE n = $1", n).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// insert delivers a number in one round trip, as sync does.
func insert(ctx context.Context, conn *pgx.Conn, n int64) error {
	_, err := conn.Exec(ctx, "INSERT INTO t VALUES ($1)", pgx.QueryExecModeExec, n)
	return err
}

// until waits until the other side has acted.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for !holds() {
		select {
		case <-limit.C:
			t.Fatalf("waited 20 s for %s", what)
		case <-tick.C:
		}
	}
}

// Without a fault the proxy passes everything in order: short and long messages, rows,
// COPY and errors.
func TestForwards(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	long := strings.Repeat("acode ", 1<<20)
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT $1::text", long).Scan(&got); err != nil || got != long {
		t.Errorf("6 MiB there and back: got %d bytes, %v", len(got), err)
	}
	rows := make([][]any, 50_000)
	for i := range rows {
		rows[i] = []any{int64(i)}
	}
	n, err := conn.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows(rows))
	if err != nil || n != int64(len(rows)) {
		t.Errorf("CopyFrom: got %d, %v, want %d", n, err, len(rows))
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1/0"); err == nil || !strings.Contains(err.Error(), "22012") {
		t.Errorf("an error of the server: got %v, want 22012", err)
	}
	c := p.proxy.Counts()
	if c.ToServer < int64(len(long)) || c.ToClient < int64(len(long)) || c.Connections != 1 || c.Cuts != 0 {
		t.Errorf("Counts: got %+v, want both ways more than %d, one connection, no cut", c, len(long))
	}
}

// P1: a delivery that is cut before its last byte to the server does not happen, and
// exactly the requested bytes pass. The test does not cover a complete request: the
// client may cancel it when it notices the cut. TestLoseReplyAfterEachByte covers that
// case.
func TestCutAfterEachByteToServer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	total := p.delivery(t).ToServer
	for n := range total {
		conn := p.connect(t)
		p.proxy.Set(pgwire.CutAfter(pgwire.ToServer, n))
		if err := insert(t.Context(), conn, n); err == nil {
			t.Fatalf("cut after %d of %d bytes: got no error", n, total)
		}
		if c := p.proxy.Counts(); c.ToServer != n || c.Cuts != 1 {
			t.Errorf("cut after %d bytes: got %+v", n, c)
		}
		if got := p.rows(t, n); got != 0 {
			t.Errorf("cut after %d of %d bytes: got %d rows, want 0", n, total, got)
		}
	}
	if total < 50 {
		t.Errorf("bytes of a delivery: got %d, want more than 50", total)
	}
}

// delivery delivers a number that no test checks, and returns the counts.
func (p *place) delivery(t *testing.T) pgwire.Counts {
	t.Helper()
	conn := p.connect(t)
	p.proxy.Set(pgwire.Fault{})
	if err := insert(t.Context(), conn, -1); err != nil {
		t.Fatal(err)
	}
	c := p.proxy.Counts()
	if c.Turns != 1 {
		t.Fatalf("round trips of a delivery: got %d, want 1", c.Turns)
	}
	return c
}

// P2: a reply is lost after each of its bytes, and the delivery happens every time.
func TestLoseReplyAfterEachByte(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	total := p.delivery(t).ToClient
	for n := range total {
		conn := p.connect(t)
		p.proxy.Set(pgwire.LoseReply(n))
		if err := insert(t.Context(), conn, n); err == nil {
			t.Errorf("lost after %d of %d bytes: got no error", n, total)
		}
		if c := p.proxy.Counts(); c.ToClient != n || c.Cuts != 1 {
			t.Errorf("lost after %d bytes: got %+v", n, c)
		}
		if got := p.rows(t, n); got != 1 {
			t.Errorf("lost after %d of %d bytes: got %d rows, want 1", n, total, got)
		}
	}
	if total < 20 {
		t.Errorf("bytes of a reply: got %d, want more than 20", total)
	}
}

// A client that reconnects after a cut meets no fault. A client that was cut while it
// connected reports an error.
func TestCutHappensOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, d := range []pgwire.Direction{pgwire.ToServer, pgwire.ToClient} {
		p.proxy.Set(pgwire.CutAfter(d, 7))
		if conn, err := pgx.Connect(t.Context(), p.url); err == nil {
			conn.Close(t.Context())
			t.Errorf("connected despite a cut of the bytes %v", d)
		}
		if err := insert(t.Context(), p.connect(t), 1); err != nil {
			t.Errorf("%v: after the cut: %v", d, err)
		}
	}
}

// A cut ends the connection in order, or by a reset.
func TestReset(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, reset := range []bool{false, true} {
		conn := p.connect(t)
		p.proxy.Set(pgwire.Fault{Reset: reset, Cut: &pgwire.Cut{Direction: pgwire.ToClient, After: 3, Committed: true}})
		err := insert(t.Context(), conn, 1)
		if got := errors.Is(err, syscall.ECONNRESET); got != reset {
			t.Errorf("reset %v: got %v", reset, err)
		}
		if got := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF); got == reset {
			t.Errorf("reset %v: got %v", reset, err)
		}
	}
}

// P3: if only replies are held, the delivery happens and its reply arrives when the
// network is back. A client with a deadline stops waiting.
func TestHoldOneWay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	patient, hasty := p.connect(t), p.connect(t)
	p.proxy.Set(pgwire.Fault{ToClient: pgwire.Line{Hold: true}})
	done := make(chan error, 1)
	go func() { done <- insert(t.Context(), patient, 1) }()
	until(t, "the delivery", func() bool { return p.rows(t, 1) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := insert(ctx, hasty, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: got %v, want that it is exceeded", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the reply came over a line that is held: %v", err)
	default:
	}
	p.proxy.Set(pgwire.Fault{})
	if err := <-done; err != nil {
		t.Errorf("after the hold: %v", err)
	}
}

// A missing network accepts connections and sends nothing. Sent bytes arrive when it is
// back.
func TestHole(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	p.proxy.Set(pgwire.Hole())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(ctx, p.url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect: got %v, want that its deadline is exceeded", err)
	}
	done := make(chan error, 1)
	go func() { done <- insert(t.Context(), conn, 1) }()
	later := make(chan error, 1)
	go func() {
		c, err := pgx.Connect(t.Context(), p.url)
		if err == nil {
			err = c.Close(t.Context())
		}
		later <- err
	}()
	until(t, "the connections", func() bool { return p.proxy.Counts().Connections == 2 })
	if c := p.proxy.Counts(); c.ToServer != 0 || c.ToClient != 0 || p.rows(t, 1) != 0 {
		t.Errorf("Counts in a hole: got %+v, want no bytes", c)
	}
	p.proxy.Set(pgwire.Fault{})
	if err := errors.Join(<-done, <-later); err != nil || p.rows(t, 1) != 1 {
		t.Errorf("after the hole: got %v, %d rows", err, p.rows(t, 1))
	}
}

// A line with a delay adds it once for each round trip, and a slow line limits the rate.
func TestDelayAndRate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	const text = "SELECT repeat('x', 20000)"
	for name, c := range map[string]struct {
		fault pgwire.Fault
		least time.Duration
	}{
		"control":    {pgwire.Fault{}, 0},
		"round_trip": {pgwire.RoundTrip(300 * time.Millisecond), 300 * time.Millisecond},
		"slow":       {pgwire.Fault{ToClient: pgwire.Line{BytesPerSecond: 50_000}}, 400 * time.Millisecond},
	} {
		p.proxy.Set(c.fault)
		begin := time.Now()
		if _, err := conn.Exec(t.Context(), text, pgx.QueryExecModeExec); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < c.least || took > c.least+10*time.Second {
			t.Errorf("%s: took %v, want %v and little more", name, took, c.least)
		}
		if got := p.proxy.Counts().Turns; got != 1 {
			t.Errorf("%s: round trips: got %d, want 1", name, got)
		}
	}
}

// Many requests share a round trip if the client does not wait for each reply.
func TestDelayIsALineNotAQueue(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	p.proxy.Set(pgwire.RoundTrip(200 * time.Millisecond))
	begin := time.Now()
	pipeline := conn.PgConn().StartPipeline(t.Context())
	for range 50 {
		pipeline.SendQueryParams("INSERT INTO t VALUES (1)", nil, nil, nil, nil)
		if err := pipeline.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := pipeline.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond || took > 50*200*time.Millisecond/2 {
		t.Errorf("50 requests: took %v, want about one round trip", took)
	}
	if got := p.rows(t, 1); got != 50 {
		t.Errorf("rows: got %d, want 50", got)
	}
}

// A cancel request passes. It does not count and does not trigger a cut.
func TestCancelIsNotCounted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	conn := p.connect(t)
	failed := make(chan error, 1)
	p.proxy.Set(pgwire.CutAfter(pgwire.ToServer, 1000))
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(600)", pgx.QueryExecModeExec)
		failed <- err
	}()
	const asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
	until(t, "the statement", func() bool {
		var n int
		return p.direct.QueryRow(t.Context(), asleep).Scan(&n) == nil && n == 1
	})
	before := p.proxy.Counts()
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("the statement: got %v, want 57014", err)
	}
	if c := p.proxy.Counts(); c.ToServer != before.ToServer || c.Connections != 0 {
		t.Errorf("Counts: got %+v, want as many bytes to the server as in %+v", c, before)
	}
}

// A held, delayed or slow connection ends at once when it is cut or when the test ends.
func TestEndsWhatWaits(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]pgwire.Fault{
		"held":    {ToServer: pgwire.Line{Hold: true}},
		"delayed": pgwire.RoundTrip(time.Hour),
		"slow":    {ToServer: pgwire.Line{BytesPerSecond: 1}},
	} {
		p := newPlace(t)
		conn := p.connect(t)
		p.proxy.Set(f)
		failed := make(chan error, 1)
		go func() { failed <- insert(t.Context(), conn, 1) }()
		// A held connection waits before the proxy connects to the server.
		if name == "held" {
			go func() {
				_, err := pgx.Connect(t.Context(), p.url)
				failed <- err
			}()
			until(t, "the connection", func() bool { return p.proxy.Counts().Connections == 1 })
		}
		select {
		case err := <-failed:
			t.Fatalf("%s: did not wait: %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		for want := p.proxy.CutAll(false); want > 0; want-- {
			if err := <-failed; err == nil {
				t.Errorf("%s: got no error", name)
			}
		}
		if got := p.rows(t, 1); got != 0 {
			t.Errorf("%s: got %d rows, want 0", name, got)
		}
	}
}

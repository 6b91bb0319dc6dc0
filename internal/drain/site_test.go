package main_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// every means all points of a series.
const every = 1 << 30

// setting returns a number from the environment; "all" is every.
func setting(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	switch text {
	case "":
		return otherwise
	case "all":
		return every
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// random returns the source of all random choices.
func random(t testing.TB) *mrand.Rand {
	return mrand.New(mrand.NewPCG(uint64(setting(t, "ACODE_DRAIN_SEED", 1)), 4))
}

// sample returns n of the points, in their order.
func sample[P any](r *mrand.Rand, points []P, n int) []P {
	if n >= len(points) {
		return points
	}
	out := make([]P, 0, n)
	for i, p := range points {
		if r.IntN(len(points)-i) < n-len(out) {
			out = append(out, p)
		}
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scratch returns an empty directory, in memory where possible. A kill leaves the same
// state there.
func scratch(t testing.TB) string {
	t.Helper()
	if info, err := os.Stat("/dev/shm"); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "drain-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// server is a migrated database and a device's login role.
type server struct {
	t testing.TB
	// admin is the address for a superuser.
	admin string
	// role is the address for the device.
	role string
}

// newServer migrates the database at an address and makes a role.
func newServer(t testing.TB, admin string) *server {
	t.Helper()
	if _, err := remote.Migrate(t.Context(), remote.Options{URL: admin, Now: time.Now}, nil); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	s := &server{t: t, admin: admin}
	name := "drain_" + strings.ToLower(rand.Text())
	s.exec(fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD 'quokka-4711' IN ROLE acode_writer`, name))
	u, err := url.Parse(admin)
	must(t, err)
	u.User = url.UserPassword(name, "quokka-4711")
	s.role = u.String()
	return s
}

// shared returns a server in its own database of the shared cluster.
func shared(t testing.TB) *server {
	t.Helper()
	s := newServer(t, pgtest.Database(t))
	// The role belongs to the cluster, so it goes before the database.
	t.Cleanup(func() {
		u, err := url.Parse(s.role)
		must(t, err)
		s.exec("DROP ROLE " + u.User.Username())
	})
	return s
}

// exec runs statements as a superuser.
func (s *server) exec(sql string) {
	s.t.Helper()
	// A clean-up runs after the test's own context has ended.
	if err := execute(context.Background(), s.admin, sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// execute runs messages of statements on its own connection.
func execute(ctx context.Context, address string, sql ...string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, q := range sql {
		if _, err := conn.PgConn().Exec(ctx, q).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// clear removes all sessions from the server. The removal survives a crash.
func (s *server) clear() {
	s.t.Helper()
	s.exec(`SET synchronous_commit = on; SET session_replication_role = replica; DELETE FROM acode.events; DELETE FROM acode.heads; DELETE FROM acode.forks; DELETE FROM acode.blobs; DELETE FROM acode.blob_chunks`)
}

// connect opens a client with a time limit for statements.
func (s *server) connect(t testing.TB, limit time.Duration) *remote.Server {
	t.Helper()
	r, err := remote.Open(remote.Options{URL: s.role, Now: time.Now, Timeout: limit})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func openRemote(address string) (*remote.Server, error) {
	return remote.Open(remote.Options{URL: address, Now: time.Now, Timeout: patience})
}

// hostOf and userOf return parts of an address.
func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.Host
}

func userOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	return u.User.Username()
}

// at replaces the address in a URL by another host and port.
func at(t testing.TB, address, hostport string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	u.Host = hostport
	return u.String()
}

// store is an open store with an outbox.
type store struct {
	t    testing.TB
	home string
	st   *local.Store
	out  *local.Outbox
}

// openStore opens the store at home, or makes it.
func openStore(t testing.TB, home string) *store {
	t.Helper()
	st, err := local.Open(t.Context(), local.Options{Home: home, Now: time.Now, Version: "drain"})
	must(t, err)
	o, err := st.Outbox(t.Context())
	must(t, err)
	s := &store{t: t, home: home, st: st, out: o}
	t.Cleanup(func() { _ = s.close() })
	return s
}

// close closes the store; a second call does nothing.
func (s *store) close() error {
	if s.st == nil {
		return nil
	}
	err := errors.Join(s.out.Close(), s.st.Close())
	s.st = nil
	return err
}

// create begins a session of n events.
func (s *store) create(n int) *local.Writer {
	s.t.Helper()
	id, err := s.st.NewID()
	must(s.t, err)
	p := &session.Plan{Version: 1, Task: "drain " + string(id), OnFailure: session.FailurePauses, Tasks: []session.Task{{ID: "t",
		Steps: []session.Step{{ID: "s", Kind: session.KindApprove, Approve: "go on?"}}}}}
	w, err := s.st.Create(s.t.Context(), local.NewSession{ID: id, Task: "drain", Workspace: "/ws", Plan: p, Config: "c"})
	must(s.t, err)
	s.t.Cleanup(func() { _ = w.Close() })
	if n > 2 {
		s.grow(w, n-2)
	}
	return w
}

// grow appends n events in one commit. Some of them are acquisitions, so that a backlog
// spans epochs.
func (s *store) grow(w *local.Writer, n int) {
	s.t.Helper()
	var drafts []session.Draft
	for i := range n {
		d := session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: fmt.Sprintf("note %d of %s", i, strings.Repeat("ä", i%40))}}
		if i%9 == 0 {
			d = session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: s.st.Device(), Host: "h", PID: 1, Workspace: "/ws"}}
		}
		drafts = append(drafts, d)
	}
	for len(drafts) > 0 {
		k := min(len(drafts), 500)
		_, err := w.Append(s.t.Context(), drafts[:k]...)
		must(s.t, err)
		drafts = drafts[k:]
	}
}

// asRemote returns a client as the outbox sees it.
func asRemote(r *remote.Server) outbox.Remote {
	if f, ok := any(r).(outbox.Remote); ok {
		return f
	}
	return bare{r}
}

// bare is a client that fills no typed tables.
type bare struct{ *remote.Server }

// Project implements outbox.Remote.
func (bare) Project(context.Context, int) (bool, error) { return false, nil }

// syncer makes a syncer with a time limit for calls and the shortest possible waits.
func (s *store) syncer(r outbox.Remote, limit time.Duration) *outbox.Syncer {
	return outbox.New(outbox.Options{Source: s.out, Remote: r, Now: time.Now, Timeout: limit,
		Heartbeat: session.Heartbeat{PID: os.Getpid(), Command: "drain"}, Rand: func() float64 { return 0 }})
}

// drainFunc delivers everything in the store. A series tests one of them.
type drainFunc func(ctx context.Context, s *store, r outbox.Remote) error

// drain is acode's drainFunc.
func drain(ctx context.Context, s *store, r outbox.Remote) error {
	return s.syncer(r, patience).Drain(ctx)
}

// idle is the positive control: every judge must fail it.
func idle(context.Context, *store, outbox.Remote) error { return nil }

// patience limits every wait. It is long because the machine may be busy.
const patience = 60 * time.Second

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(patience)
	defer over.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// homeIn returns the directory of a store below dir.
func homeIn(dir string) string { return filepath.Join(dir, "home") }

package remote_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// device is the store of tests.
const device = "0123456789abcdef0123456789abcdef"

// site is a migrated database; url is the address of a superuser.
type site struct {
	t   *testing.T
	url string
}

// newSite makes a site for one test.
func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, url: migrated(t)}
}

func migrated(tb testing.TB) string {
	address := pgtest.Database(tb)
	if _, err := remote.Migrate(context.Background(), options(address), nil); err != nil {
		tb.Fatalf("Migrate: %v", err)
	}
	return address
}

// commonSite returns the site that tests share if they use their own sessions and roles:
// to make a database takes longer than most tests.
func commonSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, url: common()}
}

var common = sync.OnceValue(func() string { return migrated(&theEnd) })

var theEnd keeper

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(theEnd.cleanups) {
		f()
	}
	os.Exit(code)
}

// keeper cleans up when all tests have ended.
type keeper struct {
	testing.TB
	cleanups []func()
}

func (k *keeper) Helper()                      {}
func (k *keeper) Cleanup(f func())             { k.cleanups = append(k.cleanups, f) }
func (k *keeper) Errorf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (k *keeper) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func (s *site) options(address string) remote.Options {
	return remote.Options{URL: address, Now: time.Now}
}

// open opens the server as the role of address.
func (s *site) open(address string) *remote.Server {
	s.t.Helper()
	r, err := remote.Open(s.options(address))
	if err != nil {
		s.t.Fatalf("Open: %v", err)
	}
	s.t.Cleanup(func() { _ = r.Close() })
	return r
}

// role makes a login role that is a member of group, and returns its address.
func (s *site) role(group string) string {
	s.t.Helper()
	name := "dev_" + strings.ToLower(rand.Text())
	s.exec(fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD 'geheim' IN ROLE %s`, name, group))
	s.t.Cleanup(func() { s.exec(`DROP ROLE ` + name) })
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.UserPassword(name, "geheim")
	return u.String()
}

// exec runs SQL as superuser.
func (s *site) exec(sql string) {
	s.t.Helper()
	if err := execAs(s.url, sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// execAs runs SQL, which may have several statements, as the role of address.
func execAs(address, sql string) error {
	// a clean-up runs after the test's own context has ended
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// value reads one value as text, as superuser.
func (s *site) value(sql string) string {
	s.t.Helper()
	return pgtest.Psql(s.t, s.url, sql)
}

// until waits until sql returns want.
func (s *site) until(sql, want string) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for s.value(sql) != want {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("%s: got %q, want %q", sql, s.value(sql), want)
		}
	}
}

// chain is a session whose first event is an acquisition at the epoch.
type chain struct {
	id     session.ID
	events []session.Event
}

func newChain(n int) *chain {
	c := &chain{id: newID()}
	c.grow(n)
	return c
}

func newID() session.ID {
	var u [16]byte
	// it never fails
	_, _ = rand.Read(u[:])
	u[6], u[8] = 0x70|u[6]&15, 0x80|u[8]&63
	return session.ID(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}

// grow appends n events of the current epoch.
func (c *chain) grow(n int) *chain {
	for range n {
		typ := session.StepStarted
		if len(c.events) == 0 {
			typ = session.SessionCreated
		}
		c.add(typ, c.epoch(), fmt.Appendf(nil, `{"v":1,"n":%d}`, len(c.events)))
	}
	return c
}

// acquire appends the event that begins the next epoch.
func (c *chain) acquire() *chain {
	return c.add(session.ExecutionAcquired, c.epoch()+1, []byte(`{"device":"x"}`))
}

func (c *chain) add(typ session.EventType, epoch uint64, payload []byte) *chain {
	seq := uint64(len(c.events)) + 1
	e := session.Event{Session: c.id, Seq: seq, TimeUS: 1_800_000_000_000_000 + int64(seq), Type: typ, Actor: "acode", Epoch: epoch, Payload: payload}
	binary.BigEndian.PutUint64(e.ID[:], seq)
	_, _ = rand.Read(e.ID[8:])
	e.Hash = e.ChainHash(c.head())
	c.events = append(c.events, e)
	return c
}

func (c *chain) epoch() uint64 {
	if len(c.events) == 0 {
		return 0
	}
	return c.events[len(c.events)-1].Epoch
}

func (c *chain) head() session.Hash { return c.hashAt(uint64(len(c.events))) }

func (c *chain) hashAt(seq uint64) session.Hash {
	if seq == 0 {
		return session.Hash{}
	}
	return c.events[seq-1].Hash
}

// split returns a chain with the same first n events.
func (c *chain) split(n int) *chain {
	return &chain{id: c.id, events: append([]session.Event(nil), c.events[:n]...)}
}

// from returns the delivery of the events first to last; none if last is 0.
func (c *chain) from(first, last int) session.Delivery {
	d := session.Delivery{Session: c.id, Device: device}
	if last > 0 {
		d.Prev, d.Events = c.hashAt(uint64(first-1)), c.events[first-1:last]
	}
	return d
}

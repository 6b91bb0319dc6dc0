package remote_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// A device is added, delivers, is revoked, loses its connections at once, and comes back
// with its sessions.
func TestDevices(t *testing.T) {
	s := commonSite(t)
	name := "laptop_" + strings.ToLower(rand.Text()[:10])
	password, err := remote.AddDevice(t.Context(), options(s.url), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.exec(`DROP ROLE ` + name) })
	mine := as(t, s.url, name, password)
	r := s.open(mine)
	c := newChain(3)
	if _, err := r.Deliver(t.Context(), c.from(1, 2)); err != nil {
		t.Fatalf("Deliver as a new device: %v", err)
	}
	if _, err := remote.AddDevice(t.Context(), options(s.url), name); !errors.Is(err, session.ErrUsage) {
		t.Errorf("AddDevice twice: got %v, want %v", err, session.ErrUsage)
	}
	if d := find(t, s, name); !d.Enabled || d.Sessions != 1 || d.Events != 2 || time.Since(d.Last) > time.Hour {
		t.Errorf("ListDevices: got %+v", d)
	}
	if err := remote.RevokeDevice(t.Context(), options(s.url), name); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Deliver(t.Context(), c.from(3, 3)); err == nil {
		t.Errorf("Deliver as a revoked device: not refused")
	}
	_, err = s.open(mine).Hello(t.Context(), device)
	wantClass(t, "Hello as a revoked device", err, session.FaultAuth)
	if d := find(t, s, name); d.Enabled || d.Sessions != 1 {
		t.Errorf("ListDevices after it: got %+v", d)
	}
	if err := remote.RevokeDevice(t.Context(), options(s.url), name); !errors.Is(err, session.ErrUsage) {
		t.Errorf("RevokeDevice twice: got %v, want %v", err, session.ErrUsage)
	}
	if password, err = remote.AddDevice(t.Context(), options(s.url), name); err != nil {
		t.Fatal(err)
	}
	if m, err := s.open(as(t, s.url, name, password)).Deliver(t.Context(), c.from(3, 3)); err != nil || m.Seq != 3 {
		t.Errorf("Deliver as a device that came back: got %+v, %v", m, err)
	}
	for _, bad := range []string{"", "Laptop", "a b", `x"; DROP ROLE y`, strings.Repeat("a", 64), "acode_owner", "acode_reader", "pg_monitor", "pg_laptop", "none", "public", s.value(`SELECT current_user`)} {
		if _, err := remote.AddDevice(t.Context(), options(s.url), bad); !errors.Is(err, session.ErrUsage) {
			t.Errorf("AddDevice %q: got %v, want %v", bad, err, session.ErrUsage)
		}
		if err := remote.RevokeDevice(t.Context(), options(s.url), bad); !errors.Is(err, session.ErrUsage) {
			t.Errorf("RevokeDevice %q: got %v, want %v", bad, err, session.ErrUsage)
		}
	}
}

// A device whose password has expired is listed as such, and gets one that is valid.
func TestExpiredDevice(t *testing.T) {
	s := commonSite(t)
	name := "laptop_" + strings.ToLower(rand.Text()[:10])
	add := func() {
		t.Helper()
		if _, err := remote.AddDevice(t.Context(), options(s.url), name); err != nil {
			t.Fatal(err)
		}
	}
	add()
	t.Cleanup(func() { s.exec(`DROP ROLE ` + name) })
	for _, c := range []struct {
		until string
		over  bool
		after string
	}{{"2020-01-01 00:00+00", true, "infinity"}, {"9999-01-01 00:00+00", false, "9999-01-01 00:00:00+00"}} {
		s.exec(fmt.Sprintf(`ALTER ROLE %s VALID UNTIL '%s'`, name, c.until))
		if d := find(t, s, name); !d.Enabled || d.Expired != c.over {
			t.Errorf("ListDevices with a password until %s: got %+v", c.until, d)
		}
		if err := remote.RevokeDevice(t.Context(), options(s.url), name); err != nil {
			t.Fatal(err)
		}
		add()
		if got := s.value(fmt.Sprintf(`SELECT rolvaliduntil FROM pg_roles WHERE rolname = '%s'`, name)); got != c.after {
			t.Errorf("a new password is valid until %s, want %s", got, c.after)
		}
	}
}

// A revoked device that never delivered comes back even if its name begins like a role of
// acode.
func TestDeviceNamedLikeOurs(t *testing.T) {
	s := commonSite(t)
	name := "acode_" + strings.ToLower(rand.Text()[:10])
	if _, err := remote.AddDevice(t.Context(), options(s.url), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.exec(`DROP ROLE ` + name) })
	if err := remote.RevokeDevice(t.Context(), options(s.url), name); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.AddDevice(t.Context(), options(s.url), name); err != nil {
		t.Errorf("AddDevice of one that was revoked: %v", err)
	}
}

// The operator of the server may deliver from a machine too, without being a device.
func TestOperatorIsNotRevoked(t *testing.T) {
	s := commonSite(t)
	for _, address := range []string{s.role("acode_owner"), s.url} {
		if _, err := s.open(address).Deliver(t.Context(), newChain(1).from(1, 1)); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if d := find(t, s, u.User.Username()); !d.Enabled || d.Sessions == 0 {
			t.Errorf("ListDevices: got %+v", d)
		}
	}
}

// An operator who is no superuser ends the connections of a revoked device too, and is no
// member of its role afterwards.
func TestRevokeByOwner(t *testing.T) {
	s := commonSite(t)
	owner := s.role("acode_owner")
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(fmt.Sprintf(`ALTER ROLE %s CREATEROLE; GRANT acode_writer TO %[1]s WITH ADMIN OPTION`, u.User.Username()))
	name := "laptop_" + strings.ToLower(rand.Text()[:10])
	password, err := remote.AddDevice(t.Context(), options(owner), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.exec(fmt.Sprintf(`REVOKE acode_writer FROM %s; DROP ROLE %s`, u.User.Username(), name)) })
	if _, err := s.open(as(t, s.url, name, password)).Hello(t.Context(), device); err != nil {
		t.Fatal(err)
	}
	members := fmt.Sprintf(`SELECT count(*) FROM pg_auth_members WHERE roleid = '%s'::regrole`, name)
	before := s.value(members)
	if err := remote.RevokeDevice(t.Context(), options(owner), name); err != nil {
		t.Errorf("RevokeDevice: %v", err)
	}
	s.until(fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE usename = '%s'`, name), "0")
	if after := s.value(members); after != before {
		t.Errorf("RevokeDevice: the device has %s members, and had %s", after, before)
	}
}

// The hint names the missing part: the password, the database.
func TestAdminHints(t *testing.T) {
	given := make(chan string, 1)
	u, err := url.Parse(commonSite(t).url)
	if err != nil {
		t.Fatal(err)
	}
	parameter := *u
	parameter.RawQuery += "&sslrootcrt=/etc/ssl/ca.pem"
	u.Path = "/nowhere_acode"
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"password":  {hint(remote.ReadStatus(t.Context(), options("postgres://u:wrong-geheim@"+doorman(t, given)+"/d?sslmode=disable"))), "password"},
		"parameter": {hint(remote.ReadStatus(t.Context(), options(parameter.String()))), "behind the ?"},
		"database":  {hint(remote.Migrate(t.Context(), options(u.String()), nil)), "make the database"},
	} {
		var e *session.Error
		if !errors.As(c.err, &e) || !strings.Contains(e.Next.String(), c.want) || strings.Contains(e.Next.String(), "CREATEROLE") {
			t.Errorf("%s: got %v, %+v, want a hint with %q", name, c.err, e, c.want)
		}
	}
}

func hint[T any](_ T, err error) error { return err }

func as(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func find(t *testing.T, s *site, name string) remote.Device {
	t.Helper()
	list, err := remote.ListDevices(t.Context(), options(s.url))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("ListDevices: no %s in %+v", name, list)
	return remote.Device{}
}

// The server stores a verifier of the password, as its own function makes it, and not the
// password.
func TestScram(t *testing.T) {
	server := pgtest.New(t, pgtest.Options{Scram: true})
	address := server.URL("postgres", "postgres")
	if _, err := remote.Migrate(t.Context(), options(address), nil); err != nil {
		t.Fatal(err)
	}
	password, err := remote.AddDevice(t.Context(), options(address), "laptop")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, url: address}
	if _, err := s.open(as(t, address, "laptop", password)).Hello(t.Context(), device); err != nil {
		t.Errorf("Hello with the password: %v", err)
	}
	_, err = s.open(as(t, address, "laptop", password+"x")).Hello(t.Context(), device)
	wantClass(t, "Hello with another password", err, session.FaultAuth)
	if strings.Contains(err.Error(), password) {
		t.Errorf("the password is in %q", err)
	}
}

// A month that stays keeps later months with events of its sessions, and no others: half
// a chain would count as wrong. The administrator verifies and projects events that a
// machine left behind.
func TestPruneAfterMachineThatIsGone(t *testing.T) {
	s := newSite(t)
	gone, r := s.open(s.role("acode_writer")), s.open(s.role("acode_writer"))
	lost, long, short := newChain(3), newChain(9), newChain(3)
	s.exec(`ALTER TABLE acode.p_checkpoints ADD CHECK (why <> 'bad')`)
	poisoned := newChain(1).add(session.StepCompleted, 0, []byte("no JSON"))
	poisoned.say(session.CheckpointCreated, session.CheckpointCreatedData{Why: "bad"})
	deliver := func(r *remote.Server, d session.Delivery) {
		t.Helper()
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	deliver(gone, lost.from(1, 3))
	deliver(gone, poisoned.from(1, 3))
	deliver(r, long.from(1, 3))
	s.age(4)
	deliver(r, long.from(4, 6))
	s.age(3)
	deliver(r, short.from(1, 3))
	s.age(2)
	deliver(r, long.from(7, 9))
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	prune := func() (blocked string) {
		t.Helper()
		months, err := remote.Prune(t.Context(), options(s.url), monthsAgo(1), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range months {
			blocked += fmt.Sprintf("%d %s; ", m.Events, m.Blocked)
		}
		return blocked
	}
	whole := func(events int64) {
		t.Helper()
		if c, err := remote.VerifyAll(t.Context(), options(s.url)); err != nil || len(c.Differences) != 0 || c.Events != events {
			t.Errorf("VerifyAll: got %+v, %v, want %d events and no difference", c, err, events)
		}
	}
	if got, want := prune(), "9 6 events are not verified yet; verify the server, which verifies them or reports the error; 3 it has sessions of an earlier month that stays; 3 ; "; got != want {
		t.Errorf("Prune: got %s, want %s", got, want)
	}
	whole(15)
	if got := s.value(`SELECT string_agg(seq || ' ' || flag, ', ' ORDER BY seq) FROM acode_views.flags`); got != "2 unreadable 22P02, 3 failed 23514" {
		t.Errorf("flags: got %q, want the event that is no JSON and the one that fails", got)
	}
	if got, err := remote.ReadStatus(t.Context(), options(s.url)); err != nil || got.Unverified != 0 || got.Unprojected != 0 {
		t.Errorf("ReadStatus: got %+v, %v, want everything verified and projected", got, err)
	}
	if got, want := prune(), "9 ; 3 ; "; got != want {
		t.Errorf("Prune after VerifyAll: got %s, want %s", got, want)
	}
	whole(3)
}

// The age of a month depends on the server's clock, which dated its events, and not on
// the administrator's.
func TestPruneByTheServersClock(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	if _, err := r.Deliver(t.Context(), newChain(3).from(1, 3)); err != nil {
		t.Fatal(err)
	}
	s.age(3)
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.exec(`CREATE SCHEMA behind; CREATE FUNCTION behind.now() RETURNS timestamptz LANGUAGE sql RETURN pg_catalog.now() - interval '1 year'`)
	u.RawQuery += "&search_path=behind,pg_catalog"
	if got, err := remote.Prune(t.Context(), options(u.String()), monthsAgo(1), false); err != nil || len(got) != 0 {
		t.Errorf("Prune by a clock that is a year behind: got %+v, %v, want no month", got, err)
	}
	if got, err := remote.Prune(t.Context(), options(s.url), monthsAgo(1), false); err != nil || len(got) != 1 || got[0].Blocked != "" {
		t.Errorf("Prune: got %+v, %v, want the month dropped", got, err)
	}
}

// The numbers of the status add up.
func TestStatus(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c, other := newChain(6).acquire(), newChain(3)
	late := c.split(6).grow(1)
	for _, d := range []session.Delivery{c.from(1, 7), other.from(1, 3), late.from(7, 7)} {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	got, err := remote.ReadStatus(t.Context(), options(s.url))
	if err != nil {
		t.Fatal(err)
	}
	if got.Sessions != 2 || got.Events != 10 || got.Unverified != 10 || got.Fenced != 1 || got.Forked != 0 || got.Broken != 0 || got.Pruned != 0 {
		t.Errorf("ReadStatus: got %+v", got)
	}
	if got.MonthsAhead != 12 || got.Durable != "on" || got.EventBytes == 0 || got.Bytes <= got.EventBytes || got.Database == "" {
		t.Errorf("ReadStatus: got %+v", got)
	}
	if len(got.Machines) != 1 || got.Machines[0].Device != device || got.Machines[0].Events != 10 || got.Machines[0].Quiet < 0 || got.Machines[0].Quiet > time.Hour {
		t.Errorf("ReadStatus: machines %+v", got.Machines)
	}
	if _, err := remote.ReadStatus(t.Context(), options(pgtest.Database(t))); !errors.Is(err, session.ErrRemoteOld) {
		t.Errorf("ReadStatus of an unmigrated server: got %v, want %v", err, session.ErrRemoteOld)
	}
	if _, err := remote.ListDevices(t.Context(), options(s.role("acode_writer"))); !errors.Is(err, session.ErrRemoteAuth) {
		t.Errorf("ListDevices as a device: got %v, want %v", err, session.ErrRemoteAuth)
	}
}

// monthsAgo returns the time since the same day n months ago.
func monthsAgo(n int) time.Duration { return time.Since(time.Now().AddDate(0, -n, 0)) }

// age moves the events that were received in this month to an earlier one.
func (s *site) age(months int) {
	s.t.Helper()
	s.exec(fmt.Sprintf(`SET session_replication_role = replica;
		DO $$ DECLARE m date := (date_trunc('month', now() AT TIME ZONE 'UTC') - interval '%d months')::date; n text := 'events_' || to_char(m, 'YYYY_MM'); BEGIN
		EXECUTE format('CREATE TABLE acode.%%I PARTITION OF acode.events FOR VALUES FROM (%%L) TO (%%L)', n, m, (m + interval '1 month')::date);
		EXECUTE format('ALTER TABLE acode.%%I OWNER TO acode_owner', n);
		UPDATE acode.events SET received_at = m + interval '1 day' WHERE received_at > now() - interval '1 day'; END $$`, months))
}

// Prune drops months; the remaining chains verify, and continue.
func TestPrune(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	long, short := newChain(10), newChain(4)
	deliver := func(d session.Delivery) {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	deliver(long.from(1, 6))
	deliver(short.from(1, 4))
	s.age(3)
	deliver(long.from(7, 8))
	s.age(1)
	deliver(long.from(9, 10))

	prune := func(months int, dryRun bool) []remote.PrunedMonth {
		t.Helper()
		got, err := remote.Prune(t.Context(), options(s.url), monthsAgo(months), dryRun)
		if err != nil {
			t.Fatalf("Prune: %v", err)
		}
		return got
	}
	if got := prune(1, false); len(got) != 1 || got[0].Blocked == "" || got[0].Events != 10 || got[0].Sessions != 2 {
		t.Errorf("Prune of unverified events: got %+v, want it to stay", got)
	}
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	if got := prune(1, true); len(got) != 1 || got[0].Blocked != "" || got[0].Bytes == 0 {
		t.Errorf("Prune, dry: got %+v", got)
	}
	if got := s.value(`SELECT count(*) FROM acode.events`); got != "14" {
		t.Errorf("Prune, dry: %s events are left, want 14", got)
	}
	prune(1, false)
	if got := s.value(`SELECT count(*) || ' ' || min(seq) FROM acode.events`); got != "4 7" {
		t.Errorf("Prune: %s (events, first seq) are left, want 4 from 7 on", got)
	}
	c, err := remote.VerifyAll(t.Context(), options(s.url))
	if err != nil || len(c.Differences) != 0 || c.Events != 4 || c.Sessions != 2 {
		t.Errorf("VerifyAll after it: got %+v, %v", c, err)
	}
	if h, err := r.Hello(t.Context(), device); err != nil || h.Events != 14 {
		t.Errorf("Hello after it: got %+v, %v, want 14 events, pruned ones included", h, err)
	}
	// A store that lost its acknowledgements may send pruned events again, and continues.
	long.grow(1)
	if m, err := r.Deliver(t.Context(), long.from(1, 11)); err != nil || m.Verdict != session.DeliveryTaken || m.Inserted != 1 || m.Duplicate != 10 {
		t.Errorf("Deliver of a pruned chain: got %+v, %v", m, err)
	}
	// Of a chain that was pruned whole the head's hash is left, and detects another
	// chain.
	if m, err := r.Deliver(t.Context(), short.split(2).grow(4).from(1, 6)); err != nil || m.Verdict != session.DeliveryForked || m.Seq != 4 || m.Inserted != 0 {
		t.Errorf("Deliver of another chain than the pruned one: got %+v, %v, want it forked", m, err)
	}
	if m, err := r.Deliver(t.Context(), short.grow(1).from(5, 5)); err != nil || m.Seq != 5 {
		t.Errorf("Deliver after a chain that was pruned whole: got %+v, %v", m, err)
	}
	verifyAll(t, r, 100)
	if got := prune(-1, false); len(got) != 2 || got[0].Blocked != "" || !strings.Contains(got[1].Blocked, "not over") {
		t.Errorf("Prune up to next month: got %+v, want last month dropped and this one kept", got)
	}
	if c, err = remote.VerifyAll(t.Context(), options(s.url)); err != nil || len(c.Differences) != 0 || c.Events != 4 {
		t.Errorf("VerifyAll after it: got %+v, %v", c, err)
	}
	if err := execAs(s.url, `SELECT acode.prune_month(date_trunc('month', now() AT TIME ZONE 'UTC')::date)`); err == nil {
		t.Errorf("prune_month of this month: not refused")
	}
}

// A month stays while it has events that will be projected again.
func TestPruneKeepsUnknownType(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	s.older(r, session.StateChanged, session.StateChangedData{To: session.Planning})
	verifyAll(t, r, 100)
	projectAll(t, r, 100)
	s.age(3)
	months, err := remote.Prune(t.Context(), options(s.url), monthsAgo(1), false)
	if err != nil || len(months) != 1 || !strings.HasPrefix(months[0].Blocked, "2 events have, or follow, a type that the server does not know") {
		t.Errorf("Prune: got %+v, %v, want the month to stay", months, err)
	}
	if err := execAs(s.url, fmt.Sprintf(`SELECT acode.prune_month('%s')`, months[0].Month.Format(time.DateOnly))); err == nil {
		t.Error("prune_month: dropped the month")
	}
	if _, err := remote.Migrate(t.Context(), options(s.url), nil); err != nil {
		t.Fatal(err)
	}
	if months, err = remote.Prune(t.Context(), options(s.url), monthsAgo(1), false); err != nil || len(months) != 1 || months[0].Blocked != "" {
		t.Errorf("Prune after Migrate: got %+v, %v, want the month dropped", months, err)
	}
}

// Errors of an administrator's command have a code and a hint, and no password.
func TestAdminErrors(t *testing.T) {
	_, err := remote.ReadStatus(t.Context(), options("postgres://u:hunter2-geheim@127.0.0.1:1/d?sslmode=disable"))
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.ErrOffline || e.Next.IsZero() || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("ReadStatus without a server: got %v", err)
	}
	for name, call := range map[string]func() error{
		"Migrate": func() error { _, err := remote.Migrate(t.Context(), options("postgres://x:y:z"), nil); return err },
		"Prune":   func() error { _, err := remote.Prune(t.Context(), options(""), 0, true); return err },
		"Verify":  func() error { _, err := remote.VerifyAll(t.Context(), options("")); return err },
		"List":    func() error { _, err := remote.ListDevices(t.Context(), options("")); return err },
		"Add":     func() error { _, err := remote.AddDevice(t.Context(), options(""), "x"); return err },
		"Revoke":  func() error { return remote.RevokeDevice(t.Context(), options(""), "x") },
	} {
		if err := call(); !errors.Is(err, session.ErrConfig) && !errors.Is(err, session.ErrSyncOff) {
			t.Errorf("%s without an address: got %v", name, err)
		}
	}
	if _, err := pgx.ParseConfig("postgres://x:y:z"); err == nil {
		t.Error("the address that was to be unreadable is readable")
	}
}

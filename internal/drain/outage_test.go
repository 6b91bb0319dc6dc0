package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

// cluster is a test's own PostgreSQL.
type cluster struct {
	*server
	pg *pgtest.Server
}

func newCluster(t testing.TB, o pgtest.Options) *cluster {
	t.Helper()
	pg := pgtest.New(t, o)
	pg.Psql("CREATE DATABASE acode")
	return &cluster{newServer(t, pg.URL("acode", "postgres")), pg}
}

// scene is a store that delivers while its server has an outage.
type scene struct {
	t      testing.TB
	c      *cluster
	s      *store
	w      *local.Writer
	syncer *outbox.Syncer
	stop   func()
}

// statementLimit is the time for a statement on a server with an outage. callLimit is the
// time for a call. Both are short, because some faults show only by a timeout.
const (
	statementLimit = 2 * time.Second
	callLimit      = 5 * time.Second
)

// newScene starts the delivery of a session and waits until the server has it.
func newScene(t testing.TB, c *cluster) *scene {
	t.Helper()
	c.clear()
	x := &scene{t: t, c: c, s: openStore(t, homeIn(scratch(t)))}
	x.w = x.s.create(5)
	x.syncer = x.s.syncer(asRemote(c.connect(t, statementLimit)), callLimit)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Run ends with its context.
		_ = x.syncer.Run(ctx)
	}()
	x.stop = func() { cancel(); <-done }
	t.Cleanup(x.stop)
	x.awaitDelivery("the first session is delivered")
	return x
}

// awaitDelivery waits until no event is pending.
func (x *scene) awaitDelivery(what string) {
	x.t.Helper()
	tick := 0
	eventually(x.t, what, func() bool {
		if tick++; tick%10 == 0 {
			// A syncer waits long only where no person waits.
			x.syncer.Kick()
		}
		_, n := x.s.age()
		return n == 0
	})
}

// grow adds events and another session.
func (x *scene) grow(n int) {
	x.t.Helper()
	x.s.grow(x.w, n)
	must(x.t, x.s.create(4).Close())
	x.syncer.Wake()
	x.syncer.Kick()
}

// state returns the state of the connection that the store records.
func (x *scene) state() (state, reason string, last int) {
	x.t.Helper()
	f := strings.SplitN(x.s.live(`SELECT state, last_us, reason FROM drainer`), "|", 3)
	if len(f) != 3 {
		return "", "", 0
	}
	return f[0], f[2], atoi(x.t, f[1])
}

// finish judges the end.
func (x *scene) finish() breaches {
	x.t.Helper()
	x.stop()
	must(x.t, x.w.Close())
	must(x.t, x.s.close())
	return judge(x.t, x.s.home, x.c.admin)
}

// outage is one fault of a server.
type outage struct {
	name string
	// states are the states of which one must be shown meanwhile.
	states []session.SyncState
	// says is part of the reason.
	says string
	// partly means that some sessions are delivered despite the outage.
	partly bool
	begin  func(x *scene) (end func())
}

// show starts and ends an outage.
func (o outage) show(t *testing.T, c *cluster) {
	x := newScene(t, c)
	end := o.begin(x)
	x.grow(30)
	state, reason, last := "", "", 0
	eventually(t, fmt.Sprintf("the state is one of %v", o.states), func() bool {
		state, reason, last = x.state()
		return slices.Contains(o.states, session.SyncState(state)) && strings.Contains(reason, o.says)
	})
	first, pending := x.s.age()
	if pending == 0 || reason == "" {
		t.Errorf("%s: state %s with %d pending, reason %q, want some and a reason", o.name, state, pending, reason)
	}
	eventually(t, "the oldest event is older", func() bool { age, _ := x.s.age(); return age > first+200*time.Millisecond })
	if _, _, later := x.state(); later != last && !o.partly {
		t.Errorf("%s: the last success moved from %d to %d in an outage", o.name, last, later)
	}
	end()
	x.awaitDelivery("everything is delivered after " + o.name)
	report(t, o.name, x.finish())
	t.Logf("%s: shown as %s (%.80s), %d pending, then synced", o.name, state, reason, pending)
}

// hold runs statements on a superuser's connection and keeps it open.
func (x *scene) hold(sql string) (release func()) {
	x.t.Helper()
	conn, err := pgx.Connect(context.Background(), x.c.admin)
	must(x.t, err)
	_, err = conn.PgConn().Exec(context.Background(), sql).ReadAll()
	must(x.t, err)
	return func() { _ = conn.Close(context.Background()) }
}

const (
	endOthers = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename LIKE 'drain_%'`
	lockHeads = `BEGIN; SELECT count(*) FROM (SELECT * FROM acode.heads FOR UPDATE) h`
	stuckOnes = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename LIKE 'drain_%'`
)

// stops returns the outages in which the server stops.
func stops() []outage {
	offline := []session.SyncState{session.SyncOffline}
	return []outage{
		{"an immediate stop in the middle of a delivery", offline, "refused", false, func(x *scene) func() {
			release := x.hold(lockHeads)
			x.grow(10)
			eventually(x.t, "a delivery waits", func() bool { return pgtest.Psql(x.t, x.c.admin, stuckOnes) != "0" })
			x.c.pg.Stop(pgtest.Immediate)
			release()
			return x.c.pg.Start
		}},
		{"kill -9 of every process of the server", offline, "refused", false, func(x *scene) func() {
			x.c.pg.Kill9()
			return x.c.pg.Start
		}},
		{"a crash in the middle of the recovery from a crash", []session.SyncState{session.SyncOffline, session.SyncRetrying}, "", false, func(x *scene) func() {
			x.c.pg.Kill9()
			x.c.pg.Launch()
			x.syncer.Kick()
			x.c.pg.Kill9()
			return func() {
				x.c.pg.Launch()
				x.syncer.Kick()
				x.c.pg.Ready()
			}
		}},
	}
}

// FR-049, FR-051: acode reports a server that stops, and delivers everything when it is
// back.
func TestServerStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Options{})
	for _, o := range stops() {
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) { o.show(t, c) })
	}
}

// troubles returns the outages of a running server.
func troubles() []outage {
	one := func(s session.SyncState) []session.SyncState { return []session.SyncState{s} }
	sql := func(begin, end string) func(x *scene) func() {
		return func(x *scene) func() {
			x.c.exec(begin + ";" + endOthers)
			return func() { x.c.exec(end) }
		}
	}
	return []outage{
		{"a server that takes no writes", one(session.SyncServerReadonly), "read-only", false, func(x *scene) func() {
			x.c.pg.SetConf("default_transaction_read_only", "on")
			return func() { x.c.pg.SetConf("default_transaction_read_only", "") }
		}},
		{"no free connection", one(session.SyncRetrying), "53300", false, func(x *scene) func() {
			x.c.exec(endOthers)
			var held []func()
			for range connections - reserved {
				held = append(held, x.hold("SELECT 1"))
			}
			// One may have reconnected meanwhile.
			x.c.exec(endOthers)
			return func() {
				for _, release := range held {
					release()
				}
			}
		}},
		{"a lock that another client holds", one(session.SyncRetrying), "", true, func(x *scene) func() { return x.hold(lockHeads) }},
		{"a library that an upgrade took away", one(session.SyncRetrying), "58P01", false, sql(
			`UPDATE pg_proc SET probin = '/nonexistent/plpgsql' WHERE proname = 'plpgsql_call_handler'`,
			`UPDATE pg_proc SET probin = '$libdir/plpgsql' WHERE proname = 'plpgsql_call_handler'`)},
		{"a role that may not log in", one(session.SyncAuthFailed), "28000", false, func(x *scene) func() {
			role := userOf(x.t, x.c.role)
			return sql(`ALTER ROLE `+role+` NOLOGIN`, `ALTER ROLE `+role+` LOGIN`)(x)
		}},
		{"a schema that is older", one(session.SyncServerUnmigrated), "a migration brings it forward", false, greeted(session.SyncServerUnmigrated, sql(
			`CREATE TABLE public.was AS SELECT schema_version FROM acode.meta; UPDATE acode.meta SET schema_version = 0`,
			`UPDATE acode.meta SET schema_version = (SELECT schema_version FROM public.was); DROP TABLE public.was`))},
		{"a schema that is too new", one(session.SyncClientTooNew), "newer acode", false, greeted(session.SyncClientTooNew, sql(
			`UPDATE acode.meta SET oldest_client = 999`, `UPDATE acode.meta SET oldest_client = 1`))},
		{"no partition for the month", one(session.SyncRetrying), "no partition", false, sql(
			`DO $$ BEGIN EXECUTE format('ALTER TABLE acode.events DETACH PARTITION acode.%I', to_char(now() AT TIME ZONE 'UTC', '"events_"YYYY_MM')); END $$`,
			`DO $$ DECLARE m date := date_trunc('month', now() AT TIME ZONE 'UTC'); BEGIN
				EXECUTE format('ALTER TABLE acode.events ATTACH PARTITION acode.%I FOR VALUES FROM (%L) TO (%L)', to_char(m, '"events_"YYYY_MM'), m, (m + interval '1 month')::date); END $$`)},
	}
}

// greeted waits for a state that only the next greeting can find.
func greeted(state session.SyncState, begin func(x *scene) func()) func(x *scene) func() {
	return func(x *scene) func() {
		end := begin(x)
		x.syncer.Kick()
		eventually(x.t, string(state)+" is shown", func() bool { got, _, _ := x.state(); return got == string(state) })
		return end
	}
}

// connections is the size of the cluster of TestServerTroubles. reserved is the part for
// superusers.
const (
	connections = 12
	reserved    = 3
)

// FR-047, FR-051: trouble of a running server has a name and uses no attempt.
func TestServerTroubles(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Options{Conf: map[string]string{"max_connections": fmt.Sprint(connections), "allow_system_table_mods": "on",
		"superuser_reserved_connections": fmt.Sprint(reserved), "max_wal_senders": "0", "autovacuum": "off"}})
	for _, o := range troubles() {
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) { o.show(t, c) })
	}
	t.Run("terminated_every_50_ms", func(t *testing.T) { terminated(t, c) })
	t.Run("statements_of_no_time", func(t *testing.T) { impatient(t, c) })
}

// terminated delivers while every connection is ended every 50 ms.
func terminated(t *testing.T, c *cluster) {
	x := newScene(t, c)
	x.grow(3000)
	_, before := x.s.age()
	ended := 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	conn, err := pgx.Connect(t.Context(), c.admin)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for range 30 {
		<-tick.C
		var n int
		must(t, conn.QueryRow(t.Context(), endOthers).Scan(&n))
		ended += n
		x.syncer.Kick()
	}
	_, left := x.s.age()
	found, _ := x.s.midway(c.admin, "")
	x.awaitDelivery("everything is delivered after connections ended")
	report(t, "terminated", append(found, x.finish()...))
	if ended < 5 {
		t.Errorf("terminated: got %d connections ended, want some", ended)
	}
	t.Logf("terminated: %d connections ended in 1.5 s, %d events were left before and %d then", ended, before, left)
}

// impatient delivers to a server whose own timeout for statements is a millisecond.
func impatient(t *testing.T, c *cluster) {
	x := newScene(t, c)
	role := userOf(t, c.role)
	c.exec(`ALTER ROLE ` + role + ` SET statement_timeout = 1; ` + endOthers)
	x.grow(1200)
	x.awaitDelivery("everything is delivered although the server has no patience")
	c.exec(`ALTER ROLE ` + role + ` RESET statement_timeout`)
	report(t, "statement_timeout", x.finish())
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/acode-dev/acode/remote"
)

// clusterVariable names the environment variable with the superuser's address of the
// measured cluster.
const clusterVariable = "ACODE_TEST_POSTGRES"

// delivery holds the shared parts of the delivery measurements: a cluster that waits for
// its disk as in production, a migrated database to copy, the role of a device, and the
// program.
type delivery struct {
	// admin is the superuser's address.
	admin string
	// role is the name of the device's role.
	role string
	// template is the name of the migrated database.
	template string
	// program is acode-sync, once a part has built it.
	program string
	// made counts the databases.
	made int
	undo []string
}

// delivering returns a part that runs with a delivery. Without a cluster it prints a
// message and skips the part.
func delivering(part func(*bench, context.Context, *delivery) error) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) (err error) {
		admin := os.Getenv(clusterVariable)
		if admin == "" {
			fmt.Fprintf(os.Stderr, "bench: left out, %s names no PostgreSQL: scripts/postgres starts one\n", clusterVariable)
			return nil
		}
		d := &delivery{admin: admin}
		defer func() { err = errors.Join(err, d.close()) }()
		if err := d.prepare(ctx); err != nil {
			return err
		}
		return part(b, ctx, d)
	}
}

func (d *delivery) prepare(ctx context.Context) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	name := "bench_" + strings.ToLower(rand.Text())
	d.role, d.template = name, name
	d.undo = append(d.undo, "DROP DATABASE IF EXISTS "+name, "DROP ROLE IF EXISTS "+name)
	if err := d.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	address, err := d.address(name, "")
	if err != nil {
		return err
	}
	if _, err := remote.Migrate(ctx, remote.Options{URL: address, Now: now}, nil); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return d.exec(ctx, "CREATE ROLE "+name+" LOGIN IN ROLE acode_writer")
}

// build builds acode-sync.
func (d *delivery) build(ctx context.Context, b *bench) error {
	dir, err := b.place("build")
	if err != nil {
		return err
	}
	d.program = filepath.Join(dir, "acode-sync")
	return goBuild(ctx, d.program, "github.com/acode-dev/acode/cmd/acode-sync")
}

// wait makes the cluster wait for its disk, as in production. Clusters for tests do not.
func (d *delivery) wait(ctx context.Context) error {
	for _, name := range []string{"fsync", "full_page_writes"} {
		on, err := d.ask(ctx, "SHOW "+name)
		if err != nil || on == "on" {
			return err
		}
		d.undo = append(d.undo, "ALTER SYSTEM RESET "+name, "SELECT pg_reload_conf()")
		if err := d.exec(ctx, "ALTER SYSTEM SET "+name+" = on", "SELECT pg_reload_conf()"); err != nil {
			return err
		}
		if err := until(ctx, func() (bool, error) {
			on, err := d.ask(ctx, "SHOW "+name)
			return on == "on", err
		}); err != nil {
			return fmt.Errorf("switch %s on: %w", name, err)
		}
	}
	return nil
}

// until polls holds for up to a minute.
func until(ctx context.Context, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := holds(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// close restores the settings of the cluster.
func (d *delivery) close() error {
	var errs []error
	for _, sql := range d.undo {
		// Restore them after a cancelled measurement too.
		errs = append(errs, d.exec(context.Background(), sql))
	}
	return errors.Join(errs...)
}

// address returns the address of a database for a role; "" means the superuser.
func (d *delivery) address(database, role string) (string, error) {
	u, err := url.Parse(d.admin)
	if err != nil {
		return "", errors.New(clusterVariable + " is not a valid address")
	}
	u.Path = "/" + database
	if role != "" {
		u.User = url.User(role)
	}
	return u.String(), nil
}

// exec runs statements as the superuser, one at a time.
func (d *delivery) exec(ctx context.Context, sql ...string) error {
	return execute(ctx, d.admin, sql...)
}

func execute(ctx context.Context, address string, sql ...string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	// No transaction is open on it.
	defer func() { _ = conn.Close(ctx) }()
	for _, q := range sql {
		if _, err := conn.PgConn().Exec(ctx, q).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

func (d *delivery) ask(ctx context.Context, sql string) (string, error) {
	return query(ctx, d.admin, sql)
}

// query returns the first value of a statement as text.
func query(ctx context.Context, address, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", err
	}
	// No transaction is open on it.
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s: %w", sql, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return "", fmt.Errorf("%s: no single value", sql)
	}
	return string(results[0].Rows[0][0]), nil
}

// server is a migrated database without events.
type server struct {
	d    *delivery
	name string
	// admin and role are addresses.
	admin, role string
}

// server makes a server from the template.
func (d *delivery) server(ctx context.Context) (*server, error) {
	d.made++
	s := &server{d: d, name: fmt.Sprintf("%s_%d", d.template, d.made)}
	var err1, err2 error
	s.admin, err1 = d.address(s.name, "")
	s.role, err2 = d.address(s.name, d.role)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	d.undo = append([]string{"DROP DATABASE IF EXISTS " + s.name + " WITH (FORCE)"}, d.undo...)
	// The checkpoint keeps the writes of the copy out of the measurement.
	return s, d.exec(ctx, "CREATE DATABASE "+s.name+" TEMPLATE "+d.template, "CHECKPOINT")
}

// drop ends all connections and removes the database.
func (s *server) drop(ctx context.Context) error {
	return s.d.exec(ctx, "DROP DATABASE "+s.name+" WITH (FORCE)")
}

// holds returns an error if the server does not hold n events. Nothing else shows that
// the measured delivery happened.
func (s *server) holds(ctx context.Context, n int) error {
	got, err := query(ctx, s.admin, "SELECT count(*) FROM acode.events")
	if err == nil && got != fmt.Sprint(n) {
		err = fmt.Errorf("the server holds %s events, want %d", got, n)
	}
	return err
}

// with runs f with a server and drops it afterwards.
func (d *delivery) with(ctx context.Context, f func(*server) error) error {
	s, err := d.server(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.drop(ctx))
}

// far runs f with an address of s behind a line with the given round trip.
func (s *server) far(trip time.Duration, f func(address string) error) error {
	u, err := url.Parse(s.role)
	if err != nil {
		return err
	}
	h := &holder{}
	defer h.close()
	p := pgwire.New(h, u.Host)
	p.Set(pgwire.RoundTrip(trip))
	address, err := p.URL(s.role)
	if err != nil {
		return err
	}
	return f(address)
}

// holder takes the place of the test that owns a proxy.
type holder struct {
	testing.TB
	ends []func()
}

// Helper does nothing.
func (*holder) Helper() {}

// Cleanup keeps f for close.
func (h *holder) Cleanup(f func()) { h.ends = append(h.ends, f) }

// Fatalf panics, because there is no test to fail.
func (*holder) Fatalf(format string, args ...any) { panic("bench: " + fmt.Sprintf(format, args...)) }

func (h *holder) close() {
	for _, f := range h.ends {
		f()
	}
}

// atLeast prints how many times faster ours is than theirs.
func (r *report) atLeast(what string, ours, theirs sample, least float64) {
	median, p95 := theirs.median()/ours.median(), theirs.p95()/ours.p95()
	mark := "PASS"
	switch {
	case median < least:
		r.over++
		mark = "below"
	case p95 < least:
		mark = "below at p95"
	}
	r.line(row{what, fmt.Sprintf("%.2f", median), fmt.Sprintf("%.2f", p95), "≥ " + number(least), mark,
		fmt.Sprintf("%s; %s; n=%d; of the quickest %.2f", ours, theirs, len(ours), theirs.at(0)/ours.at(0))})
}

// rate prints events per second beside their minimum.
func (r *report) rate(what string, s sample, events int, least float64) {
	perSecond := func(ns float64) float64 { return float64(events) / ns * 1e9 }
	median, p95 := perSecond(s.median()), perSecond(s.p95())
	mark := "PASS"
	switch {
	case median < least:
		r.over++
		mark = "below"
	case p95 < least:
		mark = "below at p95"
	}
	r.line(row{what, fmt.Sprintf("%.0f/s", median), fmt.Sprintf("%.0f/s", p95), fmt.Sprintf("≥ %.0f/s", least), mark,
		fmt.Sprintf("%d events in %s; n=%d", events, s, len(s))})
}

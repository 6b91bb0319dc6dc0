package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

const (
	clusterVariable = "ACODE_TEST_POSTGRES"

	drainEvents = 10_000
	drainRuns   = 15
	minDrain    = 1.2
)

// compareDrains delivers a backlog to PostgreSQL, and lets River insert as many jobs with
// the same bytes as arguments, in turn. River has them in memory; acode reads its store,
// checks the chain and saves the mark.
func compareDrains(ctx context.Context, dir string) error {
	address := os.Getenv(clusterVariable)
	if address == "" {
		fmt.Fprintf(os.Stderr, "peers: River left out, %s names no PostgreSQL: scripts/postgres starts one\n", clusterVariable)
		return nil
	}
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := waitForDisk(ctx, pool); err != nil {
		return err
	}
	client, err := openRiver(ctx, pool)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	k, err := newBacklog(ctx, filepath.Join(dir, "backlog"), address)
	if err != nil {
		return fmt.Errorf("backlog: %w", err)
	}
	defer k.close()
	jobs, err := k.jobs(ctx)
	if err != nil {
		return err
	}
	var ours, theirs []time.Duration
	for range drainRuns {
		took, err := k.drain(ctx, pool)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		ours = append(ours, took)
		if took, err = insert(ctx, pool, client, jobs); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		theirs = append(theirs, took)
	}
	reportRate(fmt.Sprintf("drain of %d events on loopback / River's InsertManyFast", len(jobs)), ours, theirs, minDrain)
	return nil
}

// reportRate prints how many times faster a is than b.
func reportRate(what string, a, b []time.Duration, least float64) {
	median, p95 := quantile(b, 0.5)/quantile(a, 0.5), quantile(b, 0.95)/quantile(a, 0.95)
	mark := "PASS"
	switch {
	case median < least:
		mark = "below"
	case p95 < least:
		mark = "below at p95"
	}
	fmt.Printf("| %s | %.2f | %.2f | ≥ %.2f | %s | %.3f / %.3f ms; %.3f / %.3f ms; n=%d |\n", what, median, p95, least, mark,
		quantile(a, 0.5), quantile(a, 0.95), quantile(b, 0.5), quantile(b, 0.95), len(a))
}

// waitForDisk makes a test cluster wait for its disk, as in production.
func waitForDisk(ctx context.Context, pool *pgxpool.Pool) error {
	for _, sql := range []string{"ALTER SYSTEM SET fsync = on", "ALTER SYSTEM SET full_page_writes = on", "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for on := ""; on != "on"; <-tick.C {
		if err := pool.QueryRow(ctx, "SHOW full_page_writes").Scan(&on); err != nil {
			return err
		}
	}
	return nil
}

func openRiver(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	driver := riverpgxv5.New(pool)
	m, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	return river.NewClient(driver, &river.Config{})
}

// event is a job whose arguments are the payload of an event.
type event struct{ payload json.RawMessage }

// Kind implements river.JobArgs.
func (event) Kind() string { return "event" }

// MarshalJSON returns the payload.
func (e event) MarshalJSON() ([]byte, error) { return e.payload, nil }

// insert lets River insert the jobs and returns the time.
func insert(ctx context.Context, pool *pgxpool.Pool, c *river.Client[pgx.Tx], jobs []river.InsertManyParams) (time.Duration, error) {
	for _, sql := range []string{"TRUNCATE river_job", "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	n, err := c.InsertManyFast(ctx, jobs)
	took := time.Since(start)
	if err == nil && n != len(jobs) {
		err = fmt.Errorf("%d jobs, want %d", n, len(jobs))
	}
	return took, err
}

// backlog is a store with one session that is not delivered, and its server.
type backlog struct {
	st     *local.Store
	out    *local.Outbox
	id     session.ID
	server *remote.Server
}

func newBacklog(ctx context.Context, home, address string) (*backlog, error) {
	if _, err := remote.Migrate(ctx, remote.Options{URL: address, Now: time.Now}, nil); err != nil {
		return nil, err
	}
	st, err := local.Open(ctx, local.Options{Home: home, Now: time.Now, Version: "bench"})
	if err != nil {
		return nil, err
	}
	w, err := begin(ctx, st)
	if err != nil {
		return nil, err
	}
	for n := 1; w.Session().LastSeq < drainEvents; {
		var ds []session.Draft
		for range min(500, (drainEvents-int(w.Session().LastSeq)+1)/2) {
			ds = append(ds, failed(w, n), again(w, n+1))
			n++
		}
		if _, err := w.Append(ctx, ds...); err != nil {
			return nil, err
		}
	}
	k := &backlog{st: st, id: w.Session().ID}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if k.out, err = st.Outbox(ctx); err != nil {
		return nil, err
	}
	k.server, err = remote.Open(remote.Options{URL: address, Now: time.Now})
	return k, err
}

// attempt returns the key of the nth attempt of the first step.
func attempt(w *local.Writer, n int) string {
	return session.Key{Session: w.Session().ID, Step: stepID(0), Operation: session.OpMain, Attempt: n}.String()
}

func failed(w *local.Writer, n int) session.Draft {
	return session.Draft{Type: session.StepFailedEvent, Data: session.StepFailedData{
		StepID: stepID(0), Key: attempt(w, n), Attempt: n, Code: session.ErrFileStep, Message: result(n)}}
}

func again(w *local.Writer, n int) session.Draft {
	return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
		StepID: stepID(0), Kind: session.KindRead, Key: attempt(w, n), Attempt: n, Digest: strings.Repeat("0", 64), By: "resume"}}
}

func (k *backlog) close() error {
	return errors.Join(k.server.Close(), k.out.Close(), k.st.Close())
}

// jobs returns a job for every event.
func (k *backlog) jobs(ctx context.Context) ([]river.InsertManyParams, error) {
	var jobs []river.InsertManyParams
	for after := uint64(0); ; {
		d, err := k.out.Delivery(ctx, k.id, after, 1000, 4<<20)
		if err != nil || len(d.Events) == 0 {
			return jobs, err
		}
		for _, e := range d.Events {
			jobs = append(jobs, river.InsertManyParams{Args: event{e.Payload}})
			after = e.Seq
		}
	}
}

// drain delivers everything to a server without events and returns the time.
func (k *backlog) drain(ctx context.Context, pool *pgxpool.Pool) (time.Duration, error) {
	for _, sql := range []string{"TRUNCATE acode.events, acode.heads, acode.counts CASCADE", "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	if err := k.out.SaveLane(ctx, session.Lane{Session: k.id}); err != nil {
		return 0, err
	}
	s := outbox.New(outbox.Options{Source: k.out, Remote: k.server, Now: time.Now, Heartbeat: session.Heartbeat{PID: os.Getpid(), Command: "bench"}})
	start := time.Now()
	err := s.Drain(ctx)
	took := time.Since(start)
	var n int
	if err == nil {
		err = pool.QueryRow(ctx, "SELECT count(*) FROM acode.events").Scan(&n)
	}
	if err == nil && n < drainEvents {
		err = fmt.Errorf("the server holds %d events, want %d", n, drainEvents)
	}
	return took, err
}

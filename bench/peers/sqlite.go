package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
)

const (
	// receiptBytes is the size of the row of a receipt with its checkpoint.
	receiptBytes = 1250
	// intentBytes is the size of the row of an intent.
	intentBytes = 420
	// sessionBytes is how much of a session every commit changes.
	sessionBytes = 600
	// stepBytes is the size of the row of a step.
	stepBytes = 60
	logBytes  = 4 << 20
	// warmUp is the number of commits after which the log has grown.
	warmUp = 300
)

// compareCommits measures the time of SQLite and its driver alone for the rows of a
// durable operation, in turn with a synced overwrite of as many bytes as its events have.
// It is a lower bound for operations of acode.
func compareCommits(ctx context.Context, dir string) error {
	d, err := openDriver(ctx, filepath.Join(dir, "driver.db"))
	if err != nil {
		return err
	}
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return err
	}
	if _, err := raw.Write(make([]byte, logBytes)); err != nil {
		return err
	}
	if err := raw.Sync(); err != nil {
		return err
	}
	payload := make([]byte, receiptBytes+intentBytes)
	var ours, bare []time.Duration
	for i := range operations + warmUp {
		start := time.Now()
		err := d.commit(ctx, int64(i))
		between := time.Now()
		if _, werr := raw.WriteAt(payload, int64(i*8192%(logBytes-8192))); werr != nil {
			return werr
		}
		if err := errors.Join(err, unix.Fdatasync(int(raw.Fd()))); err != nil {
			return err
		}
		if i >= warmUp {
			ours, bare = append(ours, between.Sub(start)), append(bare, time.Since(between))
		}
	}
	report("(for comparison: its rows, committed by SQLite's driver alone / synced overwrite)", ours, bare, math.Inf(1))
	return errors.Join(raw.Close(), d.conn.Close())
}

// compareStarts measures the least time of SQLite and its driver from the start of a
// process to its first commit, in turn with a program that does nothing. It is a lower
// bound for resumes of acode.
func compareStarts(ctx context.Context, dir string) error {
	var ours, bare []time.Duration
	for range resumes {
		start := time.Now()
		err := exec.CommandContext(ctx, filepath.Join(dir, "least"), filepath.Join(dir, "least.db")).Run()
		between := time.Now()
		if err := errors.Join(err, exec.CommandContext(ctx, filepath.Join(dir, "empty")).Run()); err != nil {
			return err
		}
		ours, bare = append(ours, between.Sub(start)), append(bare, time.Since(between))
	}
	report("(for comparison: start to first commit, by SQLite's driver alone / empty Go program)", ours, bare, math.Inf(1))
	return nil
}

// driverAlone commits rows like those of acode's store.
type driverAlone struct {
	conn  driver.Conn
	stmts map[string]driver.StmtExecContext
}

func openDriver(ctx context.Context, path string) (*driverAlone, error) {
	conn, err := new(sqlite.Driver).Open("file:" + path + "?_pragma=page_size(8192)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(500)")
	if err != nil {
		return nil, err
	}
	d := &driverAlone{conn: conn, stmts: map[string]driver.StmtExecContext{}}
	for _, q := range []string{
		`CREATE TABLE events (pos INTEGER PRIMARY KEY, payload BLOB)`,
		`CREATE TABLE steps (pos INTEGER PRIMARY KEY, state BLOB)`,
		`CREATE TABLE sessions (no INTEGER PRIMARY KEY, state BLOB)`,
	} {
		if err := d.run(ctx, q); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(
		d.run(ctx, `INSERT INTO sessions VALUES (?, ?)`, int64(1), make([]byte, sessionBytes)),
		d.run(ctx, `INSERT INTO steps VALUES (?, ?)`, int64(0), make([]byte, stepBytes)))
}

// commit stores a receipt, an intent, their two steps and the session.
func (d *driverAlone) commit(ctx context.Context, i int64) error {
	return errors.Join(
		d.run(ctx, `BEGIN IMMEDIATE`),
		d.run(ctx, `INSERT INTO events VALUES (?, ?)`, 2*i, make([]byte, receiptBytes)),
		d.run(ctx, `INSERT INTO events VALUES (?, ?)`, 2*i+1, make([]byte, intentBytes)),
		d.run(ctx, `UPDATE sessions SET state = ? WHERE no = 1`, fmt.Appendf(make([]byte, sessionBytes-20), "%020d", i)),
		d.run(ctx, `UPDATE steps SET state = ? WHERE pos = ?`, fmt.Appendf(make([]byte, stepBytes-20), "%020d", i), i),
		d.run(ctx, `INSERT INTO steps VALUES (?, ?)`, i+1, make([]byte, stepBytes)),
		d.run(ctx, `COMMIT`))
}

// run executes a statement and prepares it only once.
func (d *driverAlone) run(ctx context.Context, query string, args ...any) error {
	s := d.stmts[query]
	if s == nil {
		prepared, err := d.conn.Prepare(query)
		if err != nil {
			return err
		}
		s = prepared.(driver.StmtExecContext)
		d.stmts[query] = s
	}
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	_, err := s.ExecContext(ctx, named)
	return err
}

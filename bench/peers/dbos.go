package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	// DBOS needs this driver.
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

// result returns the result of a step: 1,000 bytes.
func result(i int) string { return strings.Repeat(fmt.Sprintf("%07d ", i*7919), 125) }

// openPeer opens DBOS on our own handle, as durable as acode's. DBOS's own handle would
// be synchronous=NORMAL, and a power cut may undo such commits. All other settings are
// DBOS's.
func openPeer(ctx context.Context, dir string) (dbos.Context, *sql.DB, error) {
	q := url.Values{}
	for _, p := range []string{"foreign_keys(1)", "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"} {
		q.Add("_pragma", p)
	}
	q.Set("_txlock", "immediate")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "dbos.db")+"?"+q.Encode())
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(8)
	var level int
	if err := db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil || level != 2 {
		return nil, nil, errors.Join(err, fmt.Errorf("synchronous is %d, want 2", level))
	}
	c, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SQLiteSystemDB: db, ApplicationVersion: "1", Logger: slog.New(slog.DiscardHandler)})
	return c, db, err
}

// preparePeer runs a workflow until 50 of its 100 steps are done and exits in the next
// one.
func preparePeer(ctx context.Context, dir string) error {
	c, _, err := openPeer(ctx, dir)
	if err != nil {
		return err
	}
	workflow := func(w dbos.Context, _ string) (string, error) {
		return steps(w, func() { os.Exit(0) })
	}
	dbos.RegisterWorkflow(c, workflow, dbos.WithWorkflowName("steps"))
	if err := dbos.Launch(c); err != nil {
		return err
	}
	h, err := dbos.RunWorkflow(c, workflow, "", dbos.WithWorkflowID("one"))
	if err != nil {
		return err
	}
	_, err = h.GetResult()
	return errors.Join(err, errors.New("the workflow ended"))
}

// steps runs the steps of the workflow. It calls first in the first step that was not
// done before.
func steps(w dbos.Context, first func()) (string, error) {
	for i := range stepsOfPlan {
		_, err := dbos.RunAsStep(w, func(context.Context) (string, error) {
			if i == stepsDone {
				first()
			}
			return result(i), nil
		}, dbos.WithStepName(fmt.Sprintf("s%05d", i)))
		if err != nil {
			return "", err
		}
	}
	return "done", nil
}

// resumePeer starts DBOS, which resumes the unfinished workflow by itself, and reports
// when the first new step runs.
func resumePeer(ctx context.Context, dir string) error {
	c, _, err := openPeer(ctx, dir)
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(c, func(w dbos.Context, _ string) (string, error) {
		return steps(w, func() {
			fmt.Println("first")
			// The parent kills this process.
			select {}
		})
	}, dbos.WithWorkflowName("steps"))
	if err := dbos.Launch(c); err != nil {
		return err
	}
	<-time.After(30 * time.Second)
	return errors.New("nothing was resumed")
}

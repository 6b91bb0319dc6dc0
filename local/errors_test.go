package local_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

func TestFailuresOfTheDiskHaveCodes(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  session.Code
		fatal bool
	}{
		{syscall.ENOSPC, session.ErrDiskFull, true},
		{syscall.EDQUOT, session.ErrDiskFull, true},
		{syscall.EROFS, session.ErrReadOnly, true},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}, session.ErrStoreIO, true},
		{&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EPERM}, session.ErrStoreIO, true},
		{errors.New("else"), session.ErrInternal, false},
		{context.Canceled, session.ErrInternal, false},
		{&session.Error{Code: session.ErrFenced}, session.ErrFenced, false},
	} {
		err := local.StoreError("write", fmt.Errorf("deeper: %w", c.err))
		if got := session.CodeOf(err); got != c.code {
			t.Errorf("%v: code %s, want %s", c.err, got, c.code)
		}
		if got := local.Fatal(err); got != c.fatal {
			t.Errorf("%v: fatal %v, want %v", c.err, got, c.fatal)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v: lost its cause", c.err)
		}
	}
	if local.StoreError("write", nil) != nil {
		t.Error("no failure became one")
	}
}

// A store that another process keeps locked is not a broken disk. The error advises to
// wait or to find the frozen process.
func TestStoreThatSomebodyKeepsIsLocked(t *testing.T) {
	dsn := "file:" + filepath.Join(t.TempDir(), "x.db") + "?_pragma=busy_timeout(0)&_txlock=immediate"
	one, err := sql.Open("sqlite", dsn)
	must(t, err)
	defer one.Close()
	tx, err := one.Begin()
	must(t, err)
	defer func() { _ = tx.Rollback() }() // nothing was written
	other, err := sql.Open("sqlite", dsn)
	must(t, err)
	defer other.Close()
	_, busy := other.Begin()
	err = local.StoreError("append", busy)
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.ErrLocked || !e.Retryable || !strings.Contains(e.Next.String(), "a database tool") || local.Fatal(err) {
		t.Errorf("busy: got %+v from %v, want %s, to be tried again, not fatal", e, busy, session.ErrLocked)
	}
}

// acode's rows keep every constraint of the tables, so a broken constraint is damage.
func TestBrokenRulesOfTablesAreDamage(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "x.db"))
	must(t, err)
	defer db.Close()
	for _, q := range []string{`CREATE TABLE a (x INTEGER PRIMARY KEY CHECK (x < 3))`, `INSERT INTO a VALUES (1)`} {
		_, err := db.Exec(q)
		must(t, err)
	}
	for _, q := range []string{`INSERT INTO a VALUES (1)`, `INSERT INTO a VALUES (3)`} {
		_, err := db.Exec(q)
		if got := local.StoreError("append", err); !errors.Is(got, session.ErrCorrupt) || !local.Fatal(got) {
			t.Errorf("%s: got %v, want %s", q, got, session.ErrCorrupt)
		}
	}
}

func TestProblemsAreOneLine(t *testing.T) {
	p := local.Problem{Session: "s", Code: session.ErrCorrupt, Place: "seq 3", Message: "bad"}
	if got := p.String(); got != "session s: seq 3: bad (ACODE-JOURNAL-002)" {
		t.Errorf("String: got %q", got)
	}
	if got := (local.Problem{Place: "schema"}).String(); !strings.HasPrefix(got, "store: schema") {
		t.Errorf("String: got %q", got)
	}
}

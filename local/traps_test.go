package local_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"modernc.org/sqlite"
)

// Variables that make the test binary the process that reads the store beside SQLite.
const (
	// path of a separate database
	trapDatabase = "LOCAL_TEST_TRAP_DATABASE"
	// "process" or "file"
	trapLocking = "LOCAL_TEST_TRAP_LOCKING"
)

// acknowledged is how many rows that process commits in the end.
const acknowledged = 5

// trapProcess opens a database and also opens its file in another way. When told to
// continue, it commits rows until it is killed.
func trapProcess(database string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	if os.Getenv(trapLocking) == "file" {
		_, err := sqlite.OFDLocking(true)
		check(err)
	}
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	check(err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE t (x)`)
	check(err)
	for _, suffix := range []string{"", "-shm"} { // like a scan of a workspace that contains the store
		if suffix == "-shm" && os.Getenv(trapLocking) == "file" {
			continue // only SQLite opens it, with either kind of lock
		}
		_, err = os.ReadFile(database + suffix)
		check(err)
	}
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	for range acknowledged {
		_, err = db.Exec(`INSERT INTO t VALUES (1)`)
		check(err)
		fmt.Println("committed")
	}
	select {}
}

// With locks of the process, another process deletes the log under a writer, and later
// commits are lost. With locks of the open file they are kept.
func TestLocksOutliveAnotherOpen(t *testing.T) {
	for _, tt := range []struct {
		locking string
		kept    bool
	}{{"process", false}, {"file", runtime.GOOS == "linux"}} {
		t.Run(tt.locking, func(t *testing.T) {
			database := filepath.Join(t.TempDir(), "trap.db")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), trapDatabase+"="+database, trapLocking+"="+tt.locking)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			lines := bufio.NewScanner(out)
			scan := func() {
				if !lines.Scan() {
					t.Fatalf("the writer ended: %v", cmd.Wait())
				}
			}
			scan()
			if out, err := exec.Command("sqlite3", database, "SELECT count(*) FROM t").CombinedOutput(); err != nil {
				t.Fatalf("another process: %v: %s", err, out)
			}
			_, err = in.Write([]byte("go on\n"))
			must(t, err)
			for range acknowledged {
				scan()
			}
			must(t, cmd.Process.Kill())
			_ = cmd.Wait() // it was killed
			if got := count(t, database); (got == acknowledged) != tt.kept {
				t.Errorf("got %d rows of %d that were acknowledged; want kept: %v", got, acknowledged, tt.kept)
			}
		})
	}
}

func count(t *testing.T, database string) (n int) {
	t.Helper()
	out, err := exec.Command("sqlite3", database, "SELECT count(*) FROM t").CombinedOutput()
	must(t, err)
	n, err = strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The same with the store itself: others read and open its files while it is written.
func TestStoreOutlivesAnotherOpen(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 40)
	for i := range 20 {
		appendAll(t, w, started(w, i, 1), completed(w, i, 1))
		if _, err := os.ReadFile(filepath.Join(o.Home, "acode.db")); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("sqlite3", filepath.Join(o.Home, "acode.db"), "SELECT count(*) FROM events").CombinedOutput(); err != nil {
			t.Fatalf("another process: %v: %s", err, out)
		}
	}
	crashed := o // the state after a SIGKILL
	crashed.Home = filepath.Join(t.TempDir(), "crashed")
	copyHome(t, o.Home, crashed.Home)
	if got := load(t, open(t, crashed), w.Session().ID).Session(); got.LastSeq != w.Session().LastSeq {
		t.Errorf("the store ends at %d, and %d was acknowledged", got.LastSeq, w.Session().LastSeq)
	}
}

// Writers in two processes wait for each other. A transaction that reads first and then
// writes fails at once.
func TestWritersWaitForOneAnother(t *testing.T) {
	o := options(t)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		s := open(t, o)
		w := create(t, s, 1)
		wg.Go(func() {
			for range 50 {
				if _, err := w.Append(t.Context(), session.Draft{Type: session.CheckpointCreated, Data: session.CheckpointCreatedData{Why: "test"}}); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	if !strings.Contains(local.DSN(o.Home, "rw"), "_txlock=immediate") {
		t.Errorf("DSN: got %s", local.DSN(o.Home, "rw"))
	}
}

// Settings apply to every connection of a pool, not only to the first.
func TestEveryConnectionHasItsPragmas(t *testing.T) {
	o := options(t)
	must(t, open(t, o).Close()) // the process that makes a store sets some of them itself
	s := open(t, o)
	create(t, s, 1)
	for name, want := range map[string]string{
		"synchronous": "2", "journal_mode": "wal", "secure_delete": "1", "foreign_keys": "1", "busy_timeout": "10000", "trusted_schema": "0", "wal_autocheckpoint": "500",
		"fullfsync": "1",
	} {
		if got, err := s.Pragma(t.Context(), name, true); err != nil || got != want {
			t.Errorf("PRAGMA %s of the writer: got %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"query_only": "1", "foreign_keys": "1", "busy_timeout": "60000", "trusted_schema": "0"} {
		if got, err := s.Pragma(t.Context(), name, false); err != nil || got != want {
			t.Errorf("PRAGMA %s of a reader: got %q, %v, want %q", name, got, err, want)
		}
	}
	pool := func(name string) (values []string) {
		db, err := sql.Open("sqlite", name)
		must(t, err)
		defer db.Close()
		_, err = db.Exec(`PRAGMA foreign_keys = 1`) // the wrong way
		must(t, err)
		for range 4 {
			c, err := db.Conn(t.Context())
			must(t, err)
			defer c.Close()
			var v string
			must(t, c.QueryRowContext(t.Context(), `PRAGMA foreign_keys`).Scan(&v))
			values = append(values, v)
		}
		return values
	}
	if got := strings.Join(pool(local.DSN(o.Home, "ro")), ""); got != "1111" {
		t.Errorf("foreign_keys of four connections: got %s, want 1111", got)
	}
	if got := strings.Join(pool("file:"+filepath.Join(t.TempDir(), "trap.db")), ""); got != "1000" {
		t.Errorf("the trap: got %s, want 1000", got)
	}
}

// Opening for reading makes no store and changes nothing.
func TestReadingMakesAndChangesNothing(t *testing.T) {
	o := options(t)
	if _, err := local.OpenRead(t.Context(), o); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("OpenRead of nothing: got %v", err)
	}
	if _, err := os.Lstat(o.Home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRead made %s", o.Home)
	}
	must(t, open(t, o).Close())
	if err := openRead(t, o).TryWrite(t.Context()); err == nil {
		t.Error("a reader wrote")
	}
	trap := filepath.Join(t.TempDir(), "trap.db")
	db, err := sql.Open("sqlite", trap+"?mode=ro")
	must(t, err)
	_, err = db.Exec(`CREATE TABLE t (x)`)
	must(t, errors.Join(err, db.Close()))
	if _, err := os.Lstat(trap); err != nil {
		t.Errorf("the trap did not spring: %v", err)
	}
}

// A long reader delays neither an open nor a commit.
func TestLongReaderHoldsNobodyUp(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 3)
	release, err := openRead(t, o).Hold(t.Context())
	must(t, err)
	defer release()
	appendAll(t, w, started(w, 0, 1)) // now the log has commits that the reader does not see
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	second, err := local.Open(ctx, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer second.Close()
	again, err := second.Load(ctx, w.Session().ID)
	must(t, err)
	appendAll(t, again, completed(again, 0, 1))
	if got, err := second.Pragma(t.Context(), "busy_timeout", true); err != nil || got != "10000" {
		t.Errorf("busy_timeout after a restart that did not finish: got %s, %v", got, err)
	}
}

// A commit waits as long as others commit, as many sessions do on a slow disk. It does
// not wait forever if another process only holds the lock.
func TestCommitWaitsForItsTurn(t *testing.T) {
	o := options(t)
	s, other := open(t, o), open(t, o)
	w := create(t, s, 3)
	appendAll(t, w, started(w, 0, 1))
	version, err := s.Pragma(t.Context(), "user_version", true)
	must(t, err)
	must(t, s.Exec(t.Context(), `PRAGMA busy_timeout = 200`))
	appended := make(chan error, 1)
	waits := func(draft session.Draft) {
		must(t, other.Exec(t.Context(), `BEGIN IMMEDIATE`))
		go func() {
			_, err := w.Append(context.Background(), draft)
			appended <- err
		}()
	}
	waits(completed(w, 0, 1))
	for range 40 { // longer than a commit waits when no one commits
		time.Sleep(50 * time.Millisecond)
		must(t, other.Exec(t.Context(), `PRAGMA user_version = `+version))
		must(t, other.Exec(t.Context(), `COMMIT`))
		must(t, other.Exec(t.Context(), `BEGIN IMMEDIATE`))
	}
	must(t, other.Exec(t.Context(), `ROLLBACK`))
	if err := <-appended; err != nil {
		t.Fatalf("Append while others commit: %v", err)
	}
	waits(started(w, 1, 1))
	if err := <-appended; session.CodeOf(err) != session.ErrLocked {
		t.Errorf("Append while no one commits: got %v, want %s", err, session.ErrLocked)
	}
	must(t, other.Exec(t.Context(), `ROLLBACK`))
}

// Times are integers.
func TestTimesAreIntegers(t *testing.T) {
	o := options(t)
	s := open(t, o)
	sample(t, s)
	must(t, s.Close())
	out, err := exec.Command("sqlite3", filepath.Join(o.Home, "acode.db"),
		`SELECT count(*) FROM events WHERE typeof(time_us) <> 'integer' OR time_us < 1000000000000000;
		SELECT count(*) > 0 FROM events; SELECT count(*) FROM steps WHERE typeof(started_us) <> 'integer' OR typeof(ended_us) <> 'integer'`).CombinedOutput()
	if err != nil || string(out) != "0\n1\n0\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// The sources avoid some traps. Several statements in one string bind all arguments again
// for each statement. INSERT OR REPLACE deletes children. Only SQLite may open the files
// of the database.
func TestSourcesAvoidTraps(t *testing.T) {
	names, err := filepath.Glob("*.go")
	must(t, err)
	statements := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		must(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				text := n.Value
				if strings.Contains(text, "?") && strings.Contains(text, " INTO ") {
					statements++
				}
				if strings.Contains(text, ";") && strings.Contains(text, "?") && strings.HasPrefix(text, "`") || strings.Contains(text, "OR REPLACE") ||
					strings.Contains(text, "-shm") && name != "make.go" { // make.go only removes it
					t.Errorf("%s: %s", name, text)
				}
			case *ast.CallExpr:
				if fun, ok := n.Fun.(*ast.SelectorExpr); ok && opens(fun.Sel.Name) && mentions(n, "databaseName") && name != "open.go" {
					t.Errorf("%s: %s of the database", name, fun.Sel.Name)
				}
			}
			return true
		})
	}
	if statements == 0 {
		t.Error("no statement was looked at")
	}
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "trap.db"))
	must(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE t (x); INSERT INTO t VALUES (?); INSERT INTO t VALUES (?)`, "one", "two")
	var second string
	if err != nil || db.QueryRow(`SELECT x FROM t WHERE rowid = 2`).Scan(&second) != nil || second != "one" {
		t.Errorf("the trap did not spring: got %q, %v", second, err)
	}
}

func opens(name string) bool { return name == "Open" || name == "OpenFile" || name == "ReadFile" }

func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return true
	})
	return found
}

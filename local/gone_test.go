package local_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"golang.org/x/sys/unix"
)

// L6: a store whose files are removed or replaced during use acknowledges nothing more.
func TestRemovedStoreAcknowledgesNothing(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, home string){
		"database_removed": func(t *testing.T, home string) { must(t, os.Remove(filepath.Join(home, "acode.db"))) },
		"log_removed":      func(t *testing.T, home string) { must(t, os.Remove(filepath.Join(home, "acode.db-wal"))) },
		"home_moved":       func(t *testing.T, home string) { must(t, os.Rename(home, home+".moved")) },
		"log_replaced": func(t *testing.T, home string) {
			log := filepath.Join(home, "acode.db-wal")
			b, err := os.ReadFile(log)
			must(t, errors.Join(err, os.Remove(log), os.WriteFile(log, b, 0o600)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			s := open(t, o)
			w := create(t, s, 2)
			spoil(t, o.Home)
			if _, err := s.View(t.Context(), w.Session().ID); !strings.HasPrefix(name, "log_") && !errors.Is(err, session.ErrStoreIO) {
				t.Errorf("View: got %v, want %v", err, session.ErrStoreIO)
			}
			_, err := w.Append(t.Context(), started(w, 0, 1))
			if !errors.Is(err, session.ErrStoreIO) {
				t.Fatalf("Append: got %v, want %v", err, session.ErrStoreIO)
			}
			if _, again := w.Append(t.Context(), started(w, 0, 1)); !errors.Is(again, session.ErrStoreIO) {
				t.Errorf("Append again: got %v, want the same error", again)
			}
			if rerr := w.Recover(t.Context()); !errors.Is(rerr, session.ErrStoreIO) {
				t.Errorf("Recover: got %v, want the same error: only missing room is recovered from", rerr)
			}
		})
	}
}

// L6: after any failure nothing is written through the connection again, and its close
// leaves the files alone.
func TestFailedConnectionIsLeftAlone(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w, other := create(t, s, 1), create(t, s, 1)
	database := filepath.Join(o.Home, "acode.db")
	log, away := database+"-wal", filepath.Join(o.Home, "away")
	must(t, os.Rename(log, away))
	if _, err := w.Append(t.Context(), tick()); !errors.Is(err, session.ErrStoreIO) {
		t.Fatalf("Append without a log: got %v, want %v", err, session.ErrStoreIO)
	}
	must(t, os.Rename(away, log))
	files := func() string {
		a, aerr := os.ReadFile(database)
		b, berr := os.ReadFile(log)
		must(t, errors.Join(aerr, berr))
		return string(a) + string(b)
	}
	before := files()
	for name, write := range map[string]func() error{
		"Append": func() error { _, err := other.Append(t.Context(), tick()); return err },
		"Ask": func() error {
			return s.Ask(t.Context(), session.Request{Session: w.Session().ID, Kind: session.RequestCancel})
		},
		"PauseSync": func() error { return s.PauseSync(t.Context(), true) },
		"Create": func() error {
			_, err := s.Create(t.Context(), local.NewSession{ID: "01890a5d-ac96-774b-bcce-b302099a8057", Task: "test", Workspace: "/ws", Plan: plan(1), Config: "cfg"})
			return err
		},
	} {
		if err := write(); !errors.Is(err, session.ErrStoreIO) {
			t.Errorf("%s: got %v, want the same failure", name, err)
		}
	}
	must(t, s.Close())
	if files() != before {
		t.Error("the files of the store changed after the failure")
	}
}

// If there are heads of sessions, an empty or missing database is not a new store. It
// stays as it is, and so does its log.
func TestEmptyDatabaseIsNoNewStore(t *testing.T) {
	for name, spoil := range map[string]func(database string) error{
		"empty":   func(database string) error { return os.Truncate(database, 0) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := closedSample(t)
			database := filepath.Join(o.Home, "acode.db")
			must(t, spoil(database))
			log, err := os.ReadFile(database + "-wal")
			must(t, err)
			if _, err := local.Open(t.Context(), o); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Open: got %v, want %v", err, session.ErrCorrupt)
			}
			if _, err := local.OpenRead(t.Context(), o); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("OpenRead: got %v, want %v", err, session.ErrCorrupt)
			}
			if after, err := os.ReadFile(database + "-wal"); err != nil || !bytes.Equal(log, after) {
				t.Errorf("the log changed: %v", err)
			}
			must(t, os.RemoveAll(filepath.Join(o.Home, "heads"))) // without heads, no session is known
			must(t, os.RemoveAll(database))
			create(t, open(t, o), 1)
		})
	}
}

// A process killed while it makes the database leaves a rollback journal, which no reader
// may play back. There is no store yet, and the next open makes it.
func TestKilledMakingIsNoStore(t *testing.T) {
	o := options(t)
	must(t, os.MkdirAll(o.Home, 0o700))
	database := filepath.Join(o.Home, "acode.db")
	must(t, open(t, options(t)).Close()) // acode's kind of locks must be set before the test opens another database
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=page_size(8192)&_pragma=application_id(1633906532)")
	must(t, err)
	must(t, db.Ping())
	must(t, db.Close())
	must(t, os.Chmod(database, 0o600))
	hot := append([]byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}, make([]byte, 504)...)
	must(t, os.WriteFile(database+"-journal", hot, 0o600))
	if s, err := local.OpenRead(t.Context(), o); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("OpenRead: got %v, %v, want %v", s, err, session.ErrUnknownID)
	}
	if left, err := os.ReadFile(database + "-journal"); err != nil || !bytes.Equal(left, hot) {
		t.Errorf("OpenRead touched the journal: %v", err)
	}
	create(t, open(t, o), 1)
	if _, err := os.Lstat(database + "-journal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the journal stays: %v", err)
	}
}

// Files that a file manager or an editor leaves beside the heads are not sessions, and no
// session counts as lost because of them.
func TestOtherFilesBesideHeadsAreNoSessions(t *testing.T) {
	o, want := closedSample(t)
	litter := func(home string) {
		for _, name := range []string{".DS_Store", string(want.ID) + "~"} {
			must(t, os.WriteFile(filepath.Join(home, "heads", name), []byte("x"), 0o600))
		}
	}
	litter(o.Home)
	if r := verify(t, openRead(t, o)); len(r.Problems) != 0 || r.Sessions != 1 {
		t.Errorf("Verify: got %d sessions, %v, want one and no problem", r.Sessions, r.Problems)
	}
	fresh := options(t)
	must(t, os.MkdirAll(filepath.Join(fresh.Home, "heads"), 0o700))
	litter(fresh.Home)
	if _, err := local.OpenRead(t.Context(), fresh); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("OpenRead: got %v, want %v: there is no store yet", err, session.ErrUnknownID)
	}
	create(t, open(t, fresh), 1)
}

// If another program is killed while it writes, the next open for writing plays its
// journal back. Readers may not do so, but they do not report the database as lost.
func TestUnplayedJournalIsNoLoss(t *testing.T) {
	o, want := closedSample(t)
	journal := filepath.Join(o.Home, "acode.db-journal")
	hot := append([]byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7}, make([]byte, 504)...)
	must(t, os.WriteFile(journal, hot, 0o600))
	var e *session.Error
	if s, err := local.OpenRead(t.Context(), o); !errors.As(err, &e) || e.Code != session.ErrStoreIO || e.Place != journal || !strings.Contains(e.Next.String(), "[resume]") {
		t.Errorf("OpenRead: got %v, %v, want %v of the journal", s, err, session.ErrStoreIO)
	}
	s := open(t, o)
	load(t, s, want.ID)
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// A copy made by VACUUM INTO replaces another database whose log stays. SQLite would
// write that log over the copy, so acode refuses. Without the log, the copy is the store.
func TestLogOfAnotherDatabaseIsRefused(t *testing.T) {
	o, want := closedSample(t)
	back := o
	back.Home = filepath.Join(t.TempDir(), "copy")
	copyHome(t, o.Home, back.Home)
	database := filepath.Join(back.Home, "acode.db")
	made := filepath.Join(t.TempDir(), "backup")
	s := open(t, o)
	must(t, s.Exec(t.Context(), `VACUUM INTO ?`, made))
	must(t, errors.Join(s.Close(), os.Chmod(made, 0o600), os.Rename(made, database)))
	before, err := os.ReadFile(database)
	must(t, err)
	for name, open := range map[string]func() (*local.Store, error){
		"Open":     func() (*local.Store, error) { return local.Open(t.Context(), back) },
		"OpenRead": func() (*local.Store, error) { return local.OpenRead(t.Context(), back) },
	} {
		var e *session.Error
		if s, err := open(); !errors.As(err, &e) || e.Code != session.ErrCorrupt || e.Place != database+"-wal" {
			t.Errorf("%s: got %v, %v, want %v of the log", name, s, err, session.ErrCorrupt)
		}
	}
	if after, err := os.ReadFile(database); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the copy changed: %v", err)
	}
	must(t, os.Remove(database+"-wal"))
	s = open(t, back)
	load(t, s, want.ID)
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// For damage that verify cannot read either, the error advises to restore a backup, and
// verify says the same.
func TestWhatVerifyCannotReadComesFromABackup(t *testing.T) {
	for name, spoil := range map[string]string{
		"version":   `PRAGMA user_version = -1`,
		"store_row": `DELETE FROM store`,
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := closedSample(t)
			tamper(t, o, spoil)
			for _, open := range []func(context.Context, local.Options) (*local.Store, error){local.Open, local.OpenRead} {
				var e *session.Error
				if s, err := open(t.Context(), o); !errors.As(err, &e) || e.Code != session.ErrCorrupt && e.Code != session.ErrTampered || !strings.Contains(e.Next.String(), "backup") {
					t.Errorf("got %v, %v, want damage, and the advice to restore a backup", s, err)
				}
			}
		})
	}
}

// A copy made by VACUUM INTO has no log. The first open for writing adds one.
func TestVacuumedCopyGetsItsLog(t *testing.T) {
	o, want := closedSample(t)
	back := o
	back.Home = filepath.Join(t.TempDir(), "copy")
	copyHome(t, o.Home, back.Home)
	database := filepath.Join(back.Home, "acode.db")
	must(t, errors.Join(os.Remove(database), os.Remove(database+"-wal")))
	s := open(t, o)
	must(t, s.Exec(t.Context(), `VACUUM INTO ?`, database))
	must(t, errors.Join(s.Close(), os.Chmod(database, 0o600)))
	s = open(t, back)
	w := load(t, s, want.ID)
	appendAll(t, w, acquire(s), started(w, 1, 2))
	if mode, err := s.Pragma(t.Context(), "journal_mode", true); err != nil || mode != "wal" {
		t.Errorf("PRAGMA journal_mode: got %s, %v, want wal", mode, err)
	}
	if r := verify(t, s); len(r.Problems) != 0 {
		t.Errorf("Verify: %v", r.Problems)
	}
}

// An empty list with heads of lost sessions is an error. If another session is left, the
// list shows it.
func TestListNamesLostSessions(t *testing.T) {
	o, want := closedSample(t)
	s := open(t, o)
	other := create(t, s, 1).Session()
	must(t, s.Close())
	tamper(t, o, `PRAGMA foreign_keys = 0; DELETE FROM sessions WHERE id = '`+string(want.ID)+`'`)
	if all, err := openRead(t, o).Summaries(t.Context(), ""); err != nil || len(all) != 1 || all[0].ID != other.ID {
		t.Errorf("Summaries: got %v, %v, want the one that is left", all, err)
	}
	tamper(t, o, `PRAGMA foreign_keys = 0; DELETE FROM sessions`)
	if _, err := openRead(t, o).Summaries(t.Context(), ""); !errors.Is(err, session.ErrTampered) {
		t.Errorf("Summaries: got %v, want %v", err, session.ErrTampered)
	}
}

// A backup may leave out empty directories, or have only the database and the key.
// Missing directories are made again, and verify does not fail for a missing head.
func TestMissingFoldersAreMade(t *testing.T) {
	o, want := closedSample(t)
	must(t, errors.Join(os.RemoveAll(filepath.Join(o.Home, "heads")), os.RemoveAll(filepath.Join(o.Home, "blobs"))))
	if _, err := openRead(t, o).Verify(t.Context(), ""); err != nil {
		t.Errorf("Verify: %v", err)
	}
	s := open(t, o)
	w := create(t, s, 1)
	if _, err := w.Stage(t.Context(), strings.NewReader(strings.Repeat("large ", 20_000)), 120_000); err != nil {
		t.Errorf("Stage: %v", err)
	}
	for _, id := range []session.ID{w.Session().ID, want.ID} {
		_, err := os.Stat(filepath.Join(o.Home, "heads", string(id)))
		if made := id != want.ID; made != (err == nil) {
			t.Errorf("head of %s: got %v, want one: %v", id, err, made)
		}
	}
}

// A named pipe in the place of a file is damage, and acode does not wait for it.
func TestPipesAreNotWaitedFor(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	blob, err := w.Stage(t.Context(), strings.NewReader(strings.Repeat("large ", 20_000)), 120_000)
	must(t, err)
	sealed, err := filepath.Glob(filepath.Join(o.Home, "blobs", "*.sealed"))
	must(t, err)
	for _, path := range append(sealed, filepath.Join(o.Home, "heads", string(w.Session().ID))) {
		must(t, errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)))
	}
	if _, err := s.OpenBlob(t.Context(), blob.Hash); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("OpenBlob: got %v, want %v", err, session.ErrCorrupt)
	}
	if _, err := s.Load(t.Context(), w.Session().ID); !errors.Is(err, session.ErrTampered) {
		t.Errorf("Load: got %v, want %v", err, session.ErrTampered)
	}
}

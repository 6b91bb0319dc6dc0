package local_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// copyHome copies a closed store.
func copyHome(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "acode.db", "acode.db-wal", "key"} {
		mode := os.FileMode(0o600)
		if name == "." {
			mode = 0o700
		}
		if err := os.Chmod(filepath.Join(to, name), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// closedSample makes a store with every kind of row in the database and in its log.
func closedSample(t testing.TB) (local.Options, *session.Session) {
	t.Helper()
	o := options(t)
	s := open(t, o)
	w := sample(t, s)
	want := w.Session()
	if err := errors.Join(s.Checkpoint(t.Context()), w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return o, want
}

// unlogged is closedSample with an empty log, because rows in the log hide those in the
// database.
func unlogged(t testing.TB) (local.Options, *session.Session) {
	t.Helper()
	o, want := closedSample(t)
	if err := os.Truncate(filepath.Join(o.Home, "acode.db-wal"), 0); err != nil {
		t.Fatal(err)
	}
	return o, want
}

// I6, L4: one byte of the database, the key or a head is flipped. A load refuses or
// returns the same session. Verify reports the byte or every row still reads the same.
func TestFlippedBytesAreFoundOrHarmless(t *testing.T) {
	o, want := unlogged(t)
	r := rand.New(rand.NewPCG(1, 2))
	flipped := o
	flipped.Home = filepath.Join(t.TempDir(), "copy")
	db, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil {
		t.Fatal(err)
	}
	before := dump(t, o)
	copyHome(t, o.Home, flipped.Home)
	refused, named := 0, 0
	for range 80 {
		at := r.IntN(len(db))
		for db[at] == 0 && r.IntN(20) > 0 { // most of it is empty
			at = r.IntN(len(db))
		}
		bad := append([]byte(nil), db...)
		bad[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(filepath.Join(flipped.Home, "acode.db"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := loadOnce(t, flipped, want.ID)
		if err != nil {
			refused++
			if code := session.CodeOf(err); code == session.ErrInternal {
				t.Errorf("byte %d: Load: refused without a code: %v", at, err)
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("byte %d: Load: another session (-want +got)\n%s", at, diff)
		}
		if problems(t, flipped) {
			named++
		} else if after := dump(t, flipped); after != before {
			t.Errorf("byte %d: Verify: found nothing, and rows differ", at)
		}
	}
	t.Logf("80 flips: %d loads refused, %d named by verify", refused, named)
	if refused == 0 || named == 0 {
		t.Errorf("no flip was ever found")
	}
}

func loadOnce(t *testing.T, o local.Options, id session.ID) (*session.Session, error) {
	t.Helper()
	s, err := local.OpenRead(t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	w, err := s.Load(t.Context(), id)
	if err != nil {
		return nil, err
	}
	return w.Session(), w.Close()
}

func problems(t *testing.T, o local.Options) bool {
	t.Helper()
	s, err := local.OpenRead(t.Context(), o)
	if err != nil {
		return true
	}
	defer s.Close()
	r, err := s.Verify(t.Context(), "")
	return err != nil || len(r.Problems) > 0
}

func dump(t *testing.T, o local.Options) string {
	t.Helper()
	s := openRead(t, o)
	defer s.Close()
	text, err := s.Dump(t.Context())
	if err != nil {
		t.Fatalf("dump: %v", err)
	}
	return text
}

// Each way of changing rows without the key is refused with the matching code.
func TestChangedRowsAreRefused(t *testing.T) {
	o, want := closedSample(t)
	for name, c := range map[string]struct {
		sql  string
		code session.Code
	}{
		"event_payload":   {`DROP TRIGGER events_update; UPDATE events SET payload = replace(payload, 'exit 1', 'exit 0')`, session.ErrCorrupt},
		"event_dropped":   {`DROP TRIGGER events_delete; DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)`, session.ErrTampered},
		"event_after":     {`DROP TRIGGER events_insert; INSERT INTO events (pos, id, time_us, type, epoch, hash, payload) SELECT pos + 3, id, time_us, type, epoch, hash, payload FROM events ORDER BY pos DESC LIMIT 1`, session.ErrTampered},
		"step_row":        {`UPDATE steps SET status = 'completed'`, session.ErrTampered},
		"file_row":        {`UPDATE files SET hash = 'bb'`, session.ErrTampered},
		"session_row":     {`UPDATE sessions SET state = 'paused'`, session.ErrTampered},
		"commit_hmac":     {`UPDATE sessions SET hmac = zeroblob(32)`, session.ErrTampered},
		"all_checkpoints": {`DROP TRIGGER events_update; UPDATE events SET checkpoint = NULL`, session.ErrNoCheckpoint},
		"session_gone":    {`PRAGMA foreign_keys = 0; DELETE FROM sessions`, session.ErrTampered},
		"store_row":       {`UPDATE store SET device = 'other'`, session.ErrTampered},
		"step_order":      {`UPDATE steps SET pos = pos + 10`, session.ErrTampered},
		"step_below":      {`PRAGMA ignore_check_constraints = 1; UPDATE steps SET pos = pos - 1`, session.ErrTampered},
		"step_twice":      {`INSERT INTO steps (pos, task, step, status, attempt, start_seq, last_seq, started_us, ended_us) SELECT pos + 10, task, step, status, attempt, start_seq, last_seq, started_us, ended_us FROM steps`, session.ErrCorrupt},
		"step_zero":       {`PRAGMA ignore_check_constraints = 1; INSERT INTO steps (pos, task, step, status, attempt, start_seq, last_seq, started_us, ended_us) SELECT pos - 1, task, step, 'failed', attempt, start_seq, last_seq, started_us, ended_us FROM steps ORDER BY pos LIMIT 1`, session.ErrCorrupt},
		"file_order":      {`UPDATE files SET pos = pos + 1`, session.ErrTampered},
		"store_source":    {`PRAGMA ignore_check_constraints = 1; UPDATE store SET key_source = 'nowhere'`, session.ErrCorrupt},
		"store_key":       {`UPDATE store SET key_id = '00000000'`, session.ErrTampered},
	} {
		t.Run(name, func(t *testing.T) {
			bad := o
			bad.Home = filepath.Join(t.TempDir(), "copy")
			copyHome(t, o.Home, bad.Home)
			tamper(t, bad, c.sql)
			if _, err := loadOnce(t, bad, want.ID); !errors.Is(err, c.code) {
				t.Errorf("Load: got %v, want %v", err, c.code)
			}
			if !problems(t, bad) {
				t.Error("Verify: found nothing")
			}
			if name == "event_dropped" || name == "session_gone" { // only the head shows that the end is missing
				return
			}
			must(t, os.Remove(filepath.Join(bad.Home, "heads", string(want.ID))))
			if _, err := loadOnce(t, bad, want.ID); !errors.Is(err, c.code) {
				t.Errorf("Load without a head: got %v, want %v", err, c.code)
			}
		})
	}
}

// Verify reports rows that belong to no session, in every table.
func TestRowsOfNoSessionAreNamed(t *testing.T) {
	o, _ := closedSample(t)
	for table, row := range map[string]string{
		"requests": `INSERT INTO requests (session_no, kind, task, step, digest, reason, scope, by, mac) VALUES (77, 'cancel', '', '', '', '', '', '', zeroblob(32))`,
		"outbox":   `INSERT INTO outbox (session_no) VALUES (77)`,
		"events":   `PRAGMA ignore_check_constraints = 1; INSERT INTO events (pos, id, time_us, type, epoch, hash, payload) SELECT pos - seq, id, time_us, type, epoch, hash, payload FROM events LIMIT 1`,
		"steps":    `INSERT INTO steps (pos, task, step, status, attempt, start_seq, last_seq, started_us, ended_us) SELECT 77 << 32 | 1, task, step, status, attempt, start_seq, last_seq, started_us, ended_us FROM steps LIMIT 1`,
		"files":    `INSERT INTO files SELECT 77 << 32 | 1, path, hash, size, mode, mtime_ns, ctime_ns, inode, racy, wrote FROM files`,
	} {
		t.Run(table, func(t *testing.T) {
			bad := o
			bad.Home = filepath.Join(t.TempDir(), "copy")
			copyHome(t, o.Home, bad.Home)
			tamper(t, bad, `PRAGMA foreign_keys = 0; `+row)
			named := func(p local.Problem) bool { return strings.Contains(p.Place, table+" row ") }
			if r := verify(t, openRead(t, bad)); !slices.ContainsFunc(r.Problems, named) {
				t.Errorf("Verify: got %v, want the row named", r.Problems)
			}
		})
	}
}

// L4: the free space of a page is in its header, which reading ignores. The commit that
// takes a session over finds damage there, and not a later one after an effect.
func TestDamagedPageHeadersAreMetAtOnce(t *testing.T) {
	o, want := unlogged(t)
	db, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 8192
	refused := 0
	for at := page; at < len(db); at += page {
		for _, field := range []int{1, 2, 5, 6, 7} { // first free block, start of the content, fragments
			for _, bit := range []int{0, 3, 6} {
				bad := o
				bad.Home = filepath.Join(t.TempDir(), "copy")
				copyHome(t, o.Home, bad.Home)
				flipped := bytes.Clone(db)
				flipped[at+field] ^= 1 << bit
				if err := os.WriteFile(filepath.Join(bad.Home, "acode.db"), flipped, 0o600); err != nil {
					t.Fatal(err)
				}
				begun, err := goOn(t, bad, want.ID)
				switch {
				case begun && err != nil:
					t.Errorf("page %d, byte %d, bit %d: the receipt was refused: %v", at/page+1, field, bit, err)
				case err != nil:
					refused++
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no flip was ever met")
	}
}

// A database whose header forbids writing is refused at once, and not at the first
// receipt.
func TestForbiddenWritingIsMetAtOnce(t *testing.T) {
	for bit := range 8 {
		o, _ := unlogged(t)
		name := filepath.Join(o.Home, "acode.db")
		db, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		db[18] ^= 1 << bit
		if err := os.WriteFile(name, db, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := local.Open(t.Context(), o)
		if db[18] > 2 && !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("bit %d: Open: got %v", bit, err)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// goOn takes a session over as a resume does, and reports whether that was committed.
func goOn(t *testing.T, o local.Options, id session.ID) (begun bool, err error) {
	t.Helper()
	s, err := local.Open(t.Context(), o)
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Close() }()
	w, err := s.Load(t.Context(), id)
	if err != nil {
		return false, err
	}
	if _, err := w.Append(t.Context(), acquire(s), started(w, 1, 2)); err != nil {
		return false, err
	}
	_, err = w.Append(t.Context(), completed(w, 1, 2, session.FileState{Path: "b", Hash: "bb", Size: 3, Wrote: true}))
	return true, err
}

// A row whose columns moved names no session. It is not mistaken for the session whose id
// begins in the same way.
func TestRowWithoutAnIDIsRefused(t *testing.T) {
	for name, column := range map[string]string{"id": "id", "short": "short"} {
		t.Run(name, func(t *testing.T) {
			o, want := closedSample(t)
			tamper(t, o, `PRAGMA ignore_check_constraints = 1; UPDATE sessions SET `+column+` = `+column+` || 'more'`)
			s := openRead(t, o)
			if all, err := s.Summaries(t.Context(), ""); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Summaries: got %v, %v", all, err)
			}
			if id, err := s.Find(t.Context(), string(want.ID)); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Find: got %s, %v", id, err)
			}
		})
	}
}

// A load skips a bad newest checkpoint if the chain is good, and reports it.
func TestBadNewestCheckpointIsPassedOver(t *testing.T) {
	for name, c := range map[string]struct{ sql, found string }{
		"changed": {`DROP TRIGGER events_update; UPDATE events SET checkpoint = zeroblob(65) WHERE pos = (SELECT max(pos) FROM events WHERE checkpoint IS NOT NULL)`, "it differs from the one computed from the events"},
		"missing": {`DROP TRIGGER events_update; UPDATE events SET checkpoint = NULL WHERE pos = (SELECT max(pos) FROM events WHERE checkpoint IS NOT NULL)`, "it is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			o, want := closedSample(t)
			tamper(t, o, c.sql)
			w := load(t, openRead(t, o), want.ID)
			if r := w.Report(); r.BadCheckpoint == "" || r.Checkpoint != 6 {
				t.Errorf("Report: got %+v", r)
			}
			if diff := cmp.Diff(want, w.Session()); diff != "" {
				t.Errorf("Load: (-want +got)\n%s", diff)
			}
			v, err := openRead(t, o).Verify(t.Context(), want.ID)
			if err != nil || !slices.ContainsFunc(v.Problems, func(p local.Problem) bool { return p.Message == c.found }) {
				t.Errorf("Verify: got %+v, %v, want %q", v.Problems, err, c.found)
			}
		})
	}
}

// CKPT-001: an older database is put back and continued while the heads stay.
func TestOlderDatabaseIsNamed(t *testing.T) {
	o, want := closedSample(t)
	old, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	w := load(t, s, want.ID)
	appendAll(t, w, started(w, 1, 2))
	if err := errors.Join(s.Checkpoint(t.Context()), w.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Home, "acode.db"), old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(o.Home, "acode.db-wal"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := loadOnce(t, o, want.ID); !errors.Is(err, session.ErrTampered) || !strings.Contains(err.Error(), "lost its end") {
		t.Errorf("Load: got %v, want CKPT-001", err)
	}
	if !problems(t, o) {
		t.Error("Verify: found nothing")
	}
}

// A head that a power cut left empty, half written or damaged counts as missing. A load
// warns, verify reports a damaged one, and the next commit writes the head again.
func TestHeads(t *testing.T) {
	o, want := closedSample(t)
	path := filepath.Join(o.Home, "heads", string(want.ID))
	good, err := os.ReadFile(path)
	must(t, err)
	if got := hex.EncodeToString(good[:8]); got != hex.EncodeToString([]byte("ACHEAD1\x00")) {
		t.Errorf("head: begins with %s", got)
	}
	bad := map[string][]byte{"empty": {}, "zeros": make([]byte, len(good)), "long": append(slices.Clone(good), 1), "text": []byte("obstacle")}
	for at := range good {
		bad[fmt.Sprintf("cut at %d", at)] = good[:at]
		flipped := slices.Clone(good)
		flipped[at] ^= 1
		bad[fmt.Sprintf("byte %d flipped", at)] = flipped
	}
	s := openRead(t, o)
	for name, b := range bad {
		must(t, os.WriteFile(path, b, 0o600))
		w, err := s.Load(t.Context(), want.ID)
		if err != nil {
			t.Errorf("%s: Load: %v", name, err)
			continue
		}
		if got := w.Report().Warnings; len(got) != 1 || !strings.Contains(got[0], "head file") {
			t.Errorf("%s: warnings: got %q, want one", name, got)
		}
		if dir, _, err := s.Workspace(t.Context(), want.ID); err != nil || dir != want.Workspace {
			t.Errorf("%s: Workspace: got %q, %v", name, dir, err)
		}
	}
	must(t, os.WriteFile(path, bad["long"], 0o600))
	if r := verify(t, s); len(r.Problems) != 1 || r.Problems[0].Session != want.ID {
		t.Errorf("Verify of a damaged head: got %v", r.Problems)
	}
	writing := open(t, o)
	w := load(t, writing, want.ID)
	appendAll(t, w, started(w, 1, 2))
	if got := load(t, s, want.ID).Report().Warnings; len(got) != 0 {
		t.Errorf("warnings after a commit: got %q", got)
	}
}

func tamper(t *testing.T, o local.Options, script string) {
	t.Helper()
	s := open(t, o)
	for _, q := range strings.Split(script, ";") {
		if err := s.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if err := errors.Join(s.Checkpoint(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// encoding/json ignores the case of a key, but a damaged key must be found.
func TestDamagedCaseOfAKeyIsNamed(t *testing.T) {
	s := open(t, options(t))
	w := sample(t, s)
	id := w.Session().ID
	must(t, errors.Join(w.Close(), s.Exec(t.Context(), `UPDATE steps SET approval = replace(approval, '"digest"', '"diGest"')`)))
	if r := verify(t, s); len(r.Problems) == 0 {
		t.Error("Verify: finds nothing")
	}
	if _, err := s.Load(t.Context(), id); session.CodeOf(err) != session.ErrCorrupt {
		t.Errorf("Load: got %v, want ErrCorrupt", err)
	}
}

// A store was replaced by an older copy and continued. The head of an event acknowledged
// meanwhile shows it.
func TestOlderCopyThatWentOn(t *testing.T) {
	o, want := closedSample(t)
	older := o
	older.Home = filepath.Join(t.TempDir(), "copy")
	copyHome(t, o.Home, older.Home)
	extend := func(o local.Options, drafts ...func(w *local.Writer) session.Draft) {
		s := open(t, o)
		w := load(t, s, want.ID)
		for _, d := range drafts {
			appendAll(t, w, d(w))
		}
		must(t, errors.Join(w.Close(), s.Close()))
	}
	again := func(w *local.Writer) session.Draft { return started(w, 1, 2) }
	extend(o, again)
	extend(older, again, func(w *local.Writer) session.Draft { return failed(w, 1, 2) })
	acknowledged, err := os.ReadFile(filepath.Join(o.Home, "heads", string(want.ID)))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(older.Home, "heads", string(want.ID)), acknowledged, 0o600))
	if _, err := loadOnce(t, older, want.ID); !errors.Is(err, session.ErrTampered) || !strings.Contains(err.Error(), "older copy") {
		t.Errorf("Load: got %v, want it to say that an older copy was continued", err)
	}
}

// A session whose only checkpoint is missing is refused, like one with many.
func TestOnlyCheckpointIsGone(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 2)
	appendAll(t, w, started(w, 0, 1))
	appendAll(t, w, completed(w, 0, 1))
	id := w.Session().ID
	must(t, errors.Join(w.Close(), s.Close()))
	tamper(t, o, `DROP TRIGGER events_update; UPDATE events SET checkpoint = NULL`)
	if _, err := loadOnce(t, o, id); !errors.Is(err, session.ErrNoCheckpoint) {
		t.Errorf("Load: got %v, want %v", err, session.ErrNoCheckpoint)
	}
}

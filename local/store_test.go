package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

// Only its owner can access the files of the store.
func TestStoreIsTheOwnersAlone(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	data := noise(100_000)
	if _, err := w.Stage(t.Context(), strings.NewReader(string(data)), int64(len(data))); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(o.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 8 {
		t.Errorf("walk: %d files, %v", seen, err)
	}
}

func TestRefusedHomes(t *testing.T) {
	o := options(t)
	s := open(t, o)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		breakIt func(home string) error
		code    session.Code
	}{
		"dir_open":  {func(h string) error { return os.Chmod(h, 0o755) }, session.ErrStoreMode},
		"file_open": {func(h string) error { return os.Chmod(filepath.Join(h, "acode.db"), 0o640) }, session.ErrStoreMode},
		"symlink": {func(h string) error {
			return errors.Join(os.Rename(filepath.Join(h, "acode.db"), filepath.Join(h, "x")), os.Symlink("x", filepath.Join(h, "acode.db")))
		}, session.ErrStoreMode},
		"no_key":   {func(h string) error { return os.Remove(filepath.Join(h, "key")) }, session.ErrKey},
		"other":    {func(h string) error { return os.WriteFile(filepath.Join(h, "key"), noise(32), 0o600) }, session.ErrKey},
		"half_key": {func(h string) error { return os.Truncate(filepath.Join(h, "key"), 7) }, session.ErrKey},
		"not_a_db": {func(h string) error { return os.WriteFile(filepath.Join(h, "acode.db"), noise(9000), 0o600) }, session.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			bad := o
			bad.Home = filepath.Join(t.TempDir(), "copy")
			copyHome(t, o.Home, bad.Home)
			if err := c.breakIt(bad.Home); err != nil {
				t.Fatal(err)
			}
			s, err := local.Open(t.Context(), bad)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, c.code) {
				t.Errorf("Open: got %v, want %v", err, c.code)
			}
		})
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 200), strings.Repeat("x", 200), strings.Repeat("x", 200))
	for _, home := range []string{"relative", long, filepath.Join(o.Home, "key", "home")} {
		if _, err := local.Open(t.Context(), local.Options{Home: home}); !errors.Is(err, session.ErrConfig) {
			t.Errorf("Open of %s: %v", home, err)
		}
	}
	longest := o
	longest.Home = long[:504-len("/acode.db")]
	s = open(t, longest)
	must(t, s.Close())
	if _, err := local.OpenRead(t.Context(), local.Options{Home: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRead of nothing: %v", err)
	}
}

func TestNewerStoreIsRefused(t *testing.T) {
	o, _ := closedSample(t)
	tamper(t, o, `PRAGMA user_version = 99`)
	if _, err := local.Open(t.Context(), o); !errors.Is(err, session.ErrNewer) {
		t.Errorf("Open: got %v", err)
	}
	if _, err := local.OpenRead(t.Context(), o); !errors.Is(err, session.ErrNewer) {
		t.Errorf("OpenRead: got %v", err)
	}
}

// A store keeps the source of its first key.
func TestKeyFromTheEnvironment(t *testing.T) {
	o := options(t)
	secret := strings.Repeat("k", 16)
	o.Env = func(string) string { return secret }
	if err := open(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(o.Home, "key")); !os.IsNotExist(err) {
		t.Errorf("key file: made nevertheless (%v)", err)
	}
	for _, other := range []string{"", "short", strings.Repeat("x", 16)} {
		secret = other
		_, err := local.Open(t.Context(), o)
		if !errors.Is(err, session.ErrKey) || !strings.Contains(err.Error(), "env") {
			t.Errorf("Open with %q: got %v", other, err)
		}
	}
	secret = "short"
	fresh := options(t)
	fresh.Env = o.Env
	if _, err := local.Open(t.Context(), fresh); !errors.Is(err, session.ErrKey) {
		t.Errorf("Open of a new store with a short secret: got %v", err)
	}
}

func TestFind(t *testing.T) {
	o := options(t)
	s := open(t, o)
	if _, err := s.Find(t.Context(), "@last"); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Find in an empty store: %v", err)
	}
	a, b := create(t, s, 1).Session(), create(t, s, 1).Session()
	for ref, want := range map[string]session.ID{
		a.Short: a.ID, strings.ToUpper(b.Short): b.ID, a.Short[:2]: a.ID, string(b.ID): b.ID, string(a.ID[:30]): a.ID, "@last": b.ID,
	} {
		if got, err := s.Find(t.Context(), ref); err != nil || got != want {
			t.Errorf("Find(%q): got %v, %v, want %v", ref, got, err, want)
		}
	}
	if _, err := s.Find(t.Context(), string(a.ID[:8])); !errors.Is(err, session.ErrAmbiguous) || !strings.Contains(err.Error(), a.Short) || !strings.Contains(err.Error(), b.Short) {
		t.Errorf("Find of a common prefix: %v", err)
	}
	for _, ref := range []string{"", a.Short[:1], "nothing"} {
		if _, err := s.Find(t.Context(), ref); !errors.Is(err, session.ErrUnknownID) {
			t.Errorf("Find(%q): %v", ref, err)
		}
	}
	if _, err := s.View(t.Context(), "nobody"); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("View: %v", err)
	}
	all, err := s.Summaries(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].ID != b.ID || all[1].Steps != 1 || all[0].State != session.Executing {
		t.Errorf("Summaries: %+v, %v", all, err)
	}
	if none, err := s.Summaries(t.Context(), "/elsewhere"); err != nil || len(none) != 0 {
		t.Errorf("Summaries elsewhere: %+v, %v", none, err)
	}
	p, err := s.Plan(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan(1), p); diff != "" {
		t.Errorf("Plan: (-want +got)\n%s", diff)
	}
}

// A short id never looks like a duration. Beside "--wait" or "--watch" it could be taken
// for the value of the flag.
func TestShortIDsAreNoDurations(t *testing.T) {
	s := open(t, options(t))
	for range 200 {
		if short := create(t, s, 1).Session().Short; strings.ContainsAny(short[len(short)-1:], "hms") {
			t.Fatalf("Create: the short id %s ends like a duration", short)
		}
	}
}

// NFR-012: the signature of an approval includes the seq of its question.
func TestApprovalNamesItsQuestion(t *testing.T) {
	s := open(t, options(t))
	w := create(t, s, 1)
	r := session.Request{Session: w.Session().ID, Kind: session.RequestApprove, Step: stepID(0), Digest: "q", Asked: 9, By: "me"}
	must(t, s.Ask(t.Context(), r))
	got, err := w.Requests(t.Context())
	if err != nil || len(got) != 1 || got[0].Digest != r.Digest || got[0].Asked != r.Asked {
		t.Fatalf("Requests: got %+v, %v, want %+v", got, err, r)
	}
	if waiting, err := s.Asked(t.Context(), r); err != nil || waiting != got[0].ID {
		t.Errorf("Asked: got %d, %v, want %d", waiting, err, got[0].ID)
	}
	must(t, s.Exec(t.Context(), `UPDATE requests SET digest = 'q@10'`))
	w = load(t, s, w.Session().ID)
	if got, err := w.Requests(t.Context()); !errors.Is(err, session.ErrTampered) {
		t.Errorf("Requests with another seq: got %+v, %v, want %v", got, err, session.ErrTampered)
	}
}

func TestRequestsAreAnsweredWithAnEvent(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := create(t, s, 1)
	id := w.Session().ID
	other := open(t, o)
	for _, k := range []session.RequestKind{session.RequestCancel, session.RequestDeny} {
		if err := other.Ask(t.Context(), session.Request{Session: id, Kind: k, Step: stepID(0), Digest: "q", Reason: "no", By: "me"}); err != nil {
			t.Fatalf("Ask: %v", err)
		}
	}
	rs, err := w.Requests(t.Context())
	if err != nil || len(rs) != 2 || rs[0].Kind != session.RequestCancel || rs[1].By != "me" || rs[1].Step != stepID(0) {
		t.Fatalf("Requests: %+v, %v", rs, err)
	}
	waits := func(k session.RequestKind) int64 {
		id, err := other.Asked(t.Context(), session.Request{Session: id, Kind: k, Step: stepID(0), Digest: "q"})
		if err != nil {
			t.Fatalf("Asked: %v", err)
		}
		return id
	}
	if listed, err := other.Requests(t.Context(), id); err != nil || cmp.Diff(rs, listed) != "" {
		t.Errorf("Requests of the store: got %+v, %v, want %+v", listed, err, rs)
	}
	if waits(session.RequestCancel) != rs[0].ID || waits(session.RequestApprove) != 0 {
		t.Errorf("Asked: got %d for the cancel, %d for an approval", waits(session.RequestCancel), waits(session.RequestApprove))
	}
	if _, err := w.AppendAnswering(t.Context(), rs[0].ID, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Cancelled}}); err != nil {
		t.Fatal(err)
	}
	if rs, err = w.Requests(t.Context()); err != nil || len(rs) != 1 || rs[0].Kind != session.RequestDeny {
		t.Errorf("Requests after the answer: %+v, %v", rs, err)
	}
	if waits(session.RequestCancel) != 0 || waits(session.RequestDeny) == 0 {
		t.Errorf("Asked after the answer: got %d for the cancel, %d for the denial", waits(session.RequestCancel), waits(session.RequestDeny))
	}
	if _, err := w.AppendAnswering(t.Context(), rs[0].ID); err != nil {
		t.Fatal(err)
	}
	if rs, err = w.Requests(t.Context()); err != nil || len(rs) != 0 {
		t.Errorf("Requests after an answer without an event: %+v, %v", rs, err)
	}
	for range 2 {
		must(t, other.Ask(t.Context(), session.Request{Session: id, Kind: session.RequestCancel, Reason: "no", By: "me"}))
	}
	if err := other.Ask(t.Context(), session.Request{Session: "nobody"}); !errors.Is(err, session.ErrUnknownID) {
		t.Errorf("Ask about an unknown session: %v", err)
	}
	if err := other.Exec(t.Context(), `UPDATE requests SET reason = 'yes'`); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Requests(t.Context()); !errors.Is(err, session.ErrTampered) {
		t.Errorf("Requests after a change: %v", err)
	}
	must(t, other.Exec(t.Context(), `DELETE FROM requests`)) // an unfinished read must not block
	_, err = w.Stage(t.Context(), strings.NewReader("kept"), 4)
	must(t, err)
	appendAll(t, w)
	if rs, err = w.Requests(t.Context()); err != nil || len(rs) != 0 {
		t.Errorf("Requests after they were removed: %+v, %v", rs, err)
	}
}

// L7: reading changes no byte, and a store opened for reading refuses to write.
func TestReadingChangesNothing(t *testing.T) {
	o, want := closedSample(t)
	db := func() string {
		b, err := os.ReadFile(filepath.Join(o.Home, "acode.db"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := db()
	s := openRead(t, o)
	w := load(t, s, want.ID)
	if _, err := w.Append(t.Context(), started(w, 1, 2)); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("Append: %v", err)
	}
	if _, err := s.Create(t.Context(), local.NewSession{}); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("Create: %v", err)
	}
	if err := s.Ask(t.Context(), session.Request{}); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("Ask: %v", err)
	}
	if e, err := w.Event(t.Context(), 1); err != nil || e.Type != session.SessionCreated {
		t.Errorf("Event: %v, %v", e.Type, err)
	}
	verify(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if db() != before {
		t.Error("the database changed")
	}
}

// Without room for the -shm file the store can still be read, also commits that are only
// in the log.
func TestReadsWithoutSharedMemory(t *testing.T) {
	o := options(t)
	s := open(t, o)
	w := sample(t, s)
	want := w.Session()
	crashed := o
	crashed.Home = filepath.Join(t.TempDir(), "crashed")
	copyHome(t, o.Home, crashed.Home) // the log is not copied back yet
	shm := filepath.Join(crashed.Home, "acode.db-shm")
	if err := errors.Join(os.RemoveAll(shm), os.Mkdir(shm, 0o700)); err != nil { // no file can be made there
		t.Fatal(err)
	}
	got := load(t, openRead(t, crashed), want.ID)
	if diff := cmp.Diff(want, got.Session()); diff != "" {
		t.Errorf("Load: (-want +got)\n%s", diff)
	}
}

// Many processes may make one store at once.
func TestStoreIsMadeOnce(t *testing.T) {
	o := options(t)
	var wg sync.WaitGroup
	devices := make([]string, 4)
	for i := range devices {
		wg.Go(func() {
			s, err := local.Open(t.Context(), o)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			devices[i] = s.Device()
			_ = s.Close()
		})
	}
	wg.Wait()
	for _, d := range devices {
		if d != devices[0] || d == "" {
			t.Errorf("Open: devices %v differ", devices)
		}
	}
}

// L2: the schema itself refuses to change an event or a checkpoint.
func TestJournalIsAppendOnly(t *testing.T) {
	s := open(t, options(t))
	sample(t, s)
	for table, cols := range map[string]string{
		"events": "pos, id, time_us, type, actor, epoch, hash, checkpoint, payload",
	} {
		for _, q := range []string{`UPDATE ` + table + ` SET pos = pos + 1`, `DELETE FROM ` + table, `INSERT OR REPLACE INTO ` + table + ` (` + cols + `) SELECT ` + cols + ` FROM ` + table} {
			if err := s.Exec(t.Context(), q); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Errorf("%s: got %v", q, err)
			}
		}
	}
}

package faults_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/google/go-cmp/cmp"
)

var writeFixture = flag.Bool("write-fixture", false, "write a new testdata/format1.tar.gz and its golden data; never replace a released fixture")

// The fixture is a store with its workspace and ledger as an early program left them, and
// the data that this program read from it.
const (
	fixtureFile = "testdata/format1.tar.gz"
	goldenFile  = "testdata/format1.json"
)

// fixtureSecret is a secret that the program of the fixture redacts and seals.
const fixtureSecret = "password=hunter2hunter2hunter2"

// fixtureHead begins both plans of the fixture. It leaves content in plain text, sealed
// and in a file, a receipt with a capture, and an approval.
const fixtureHead = `version: 1
task: %s
tasks:
  - id: prepare
    steps:
      - {id: ask, approve: "Go on?"}
      - {id: look, read: {path: "*.txt"}}
      - {id: find, search: {pattern: "line 7 ", path: "."}}
      - {id: note, write: {path: %[2]s/notes.txt, content: "hello notes\r\n", mode: "0600"}}
      - {id: secret, write: {path: %[2]s/secret.txt, content: "` + fixtureSecret + `\n"}}
      - {id: big, edit: {path: big.txt, old: %[3]q, new: %[4]q}}
      - {id: both, changes: [{edit: {path: %[2]s/notes.txt, old: hello, new: goodbye}}, {write: {path: %[2]s/empty, content: ""}}]}
      - {id: sign, run: "echo \"$ACODE_IDEMPOTENCY_KEY\" >> \"$LEDGER\"; echo v9.9", capture: VER}
  - id: finish
    depends_on: [prepare]
    steps:
`

const fixtureTail = `      - {id: last, run: "echo \"$ACODE_IDEMPOTENCY_KEY $VER\" >> \"$LEDGER\""}
      - {id: after, write: {path: %s/after.txt, content: "after ${VER}\n"}}
`

// fixtureStop is a command that runs when acode is killed.
const fixtureStop = `      - {id: hold, run: "echo \"$ACODE_IDEMPOTENCY_KEY\" >> \"$LEDGER\"; while test -e \"$HOME/gate\"; do sleep 0.02; done"}
`

// golden is the data that every version must read from the fixture.
type golden struct {
	Sessions []goldenSession
	Ledger   []string
}

type goldenSession struct {
	ID      session.ID
	Short   string
	Task    string
	State   session.State
	Epoch   uint64
	Done    int
	LastSeq uint64
	Head    string
	// Checkpoint is the one that Load uses.
	Checkpoint uint64
	// Plan is the SHA-256 of the plan's JSON.
	Plan  string
	Steps map[string]stepGolden
	Files map[string]fileGolden
	// Events holds seq, type and hash of each event.
	Events []string
}

type stepGolden struct {
	Status  session.Status
	Attempt int
	Key     string
	Start   uint64
	Last    uint64
	Granted string
}

type fileGolden struct {
	Hash  string
	Size  int64
	Mode  uint32
	Wrote bool
}

// readGolden reads a store with the current program.
func readGolden(t *testing.T, home, ledger string) golden {
	t.Helper()
	ctx := t.Context()
	s, err := local.OpenRead(ctx, local.Options{Home: home, Now: time.Now})
	must(t, err)
	defer s.Close()
	sums, err := s.Summaries(ctx, "")
	must(t, err)
	slices.Reverse(sums)
	var g golden
	for _, sum := range sums {
		w, err := s.Load(ctx, sum.ID)
		must(t, err)
		view, err := s.View(ctx, sum.ID)
		must(t, err)
		events, err := s.Events(ctx, sum.ID, 0, 1<<20)
		must(t, err)
		replayed, _, err := session.Replay(events)
		must(t, err)
		for name, other := range map[string]*session.Session{"Load": w.Session(), "Replay": replayed} {
			if diff := cmp.Diff(view, other); diff != "" {
				t.Errorf("%s and View of %s differ (-View +%s):\n%s", name, sum.Task, name, diff)
			}
		}
		g.Sessions = append(g.Sessions, goldenOf(t, s, view, w.Report().Checkpoint, events))
	}
	b, err := os.ReadFile(ledger)
	must(t, err)
	g.Ledger = strings.Split(strings.TrimSpace(string(b)), "\n")
	return g
}

func goldenOf(t *testing.T, s *local.Store, view *session.Session, checkpoint uint64, events []session.Event) goldenSession {
	t.Helper()
	g := goldenSession{ID: view.ID, Short: view.Short, Task: view.Task, State: view.State, Epoch: view.Epoch, Done: view.Done, LastSeq: view.LastSeq,
		Head: view.Head.String(), Checkpoint: checkpoint, Steps: map[string]stepGolden{}, Files: map[string]fileGolden{}}
	p, err := s.OpenBlob(t.Context(), view.Plan.Hash)
	must(t, err)
	defer p.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, p)
	must(t, err)
	g.Plan = hex.EncodeToString(sum.Sum(nil))
	for id, st := range view.Steps {
		row := stepGolden{st.Status, st.Attempt, st.Key, st.StartSeq, st.LastSeq, ""}
		if st.Approval != nil {
			row.Granted = st.Approval.Answer
		}
		g.Steps[id.String()] = row
	}
	for name, f := range view.Files {
		g.Files[name] = fileGolden{f.Hash, f.Size, f.Mode, f.Wrote}
	}
	for _, e := range events {
		g.Events = append(g.Events, fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Hash))
	}
	return g
}

// B6: every later version reads a store of format 1 and continues it.
func TestFormat1(t *testing.T) {
	if *writeFixture {
		makeFixture(t)
	}
	s := plainSite(t)
	unpack(t, fixtureFile, s.root)
	b, err := os.ReadFile(goldenFile)
	must(t, err)
	var want golden
	must(t, json.Unmarshal(b, &want))
	if e := s.acode(t, "verify"); e.exit != 0 || !says(e.stdout, "2 sessions", "all good") {
		t.Errorf("got %v", e)
	}
	if diff := cmp.Diff(want, readGolden(t, s.store(), s.ledger())); diff != "" {
		t.Errorf("format 1 is read otherwise (-then +now):\n%s", diff)
	}
	checkKeys(t, want)
	half := want.Sessions[1]
	// LEDGER has another value here.
	e := s.acode(t, "resume", "-C", s.ws(), "--env=current", half.Short)
	if e.exit != 0 {
		t.Errorf("half-done session: %v", e)
	}
	after := readGolden(t, s.store(), s.ledger())
	if diff := cmp.Diff(want.Sessions[0], after.Sessions[0]); diff != "" {
		t.Errorf("the finished session changed:\n%s", diff)
	}
	if got := after.Sessions[1]; got.State != session.Completed || !slices.Equal(got.Events[:len(half.Events)], half.Events) {
		t.Errorf("half-done session: %s after %d events, the first %d as before", got.State, len(got.Events), len(half.Events))
	}
	last := "v1:" + string(half.ID) + ":finish/last/main:1 v9.9"
	if diff := cmp.Diff(append(want.Ledger, last), after.Ledger); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(filepath.Join(s.ws(), "half", "after.txt")); err != nil || string(text) != "after v9.9\n" {
		t.Errorf("after.txt: got %q, %v", text, err)
	}
}

// checkKeys checks the idempotency keys that commands and steps of format 1 received.
func checkKeys(t *testing.T, g golden) {
	t.Helper()
	keys := 0
	for _, s := range g.Sessions {
		for id, st := range s.Steps {
			if st.Key == "" {
				continue
			}
			keys++
			k, err := session.ParseKey(st.Key)
			if err != nil || k.String() != st.Key || k.Session != s.ID || k.Step.String()+"/"+k.Operation != id+"/main" || k.Attempt != st.Attempt {
				t.Errorf("key %q of %s: got %+v, %v", st.Key, id, k, err)
			}
		}
	}
	for _, line := range g.Ledger {
		key, _, _ := strings.Cut(line, " ")
		k, err := session.ParseKey(key)
		if err != nil || k.String() != key {
			t.Errorf("key %q: got %+v, %v", key, k, err)
		}
	}
	if keys == 0 || len(g.Ledger) < 4 {
		t.Errorf("the fixture has %d keys of steps and %d of commands", keys, len(g.Ledger))
	}
}

// makeFixture writes a new fixture.
func makeFixture(t *testing.T) {
	s := plainSite(t)
	must(t, os.WriteFile(filepath.Join(s.ws(), "big.txt"), []byte(firstLine+strings.Repeat("a line of a large file\n", 4000)), 0o644))
	must(t, os.WriteFile(filepath.Join(s.ws(), "other.txt"), []byte("line 1 \nline 7 \n"), 0o644))
	plan := func(task, dir, old, now, stop string) {
		text := fmt.Sprintf(fixtureHead, task, dir, old, now) + stop + fmt.Sprintf(fixtureTail, dir)
		must(t, os.WriteFile(s.plan(), []byte(text), 0o644))
	}
	begin := func() {
		if e := s.acode(t, "run", "--plan", s.plan()); e.exit != 10 {
			t.Fatalf("%v; want exit 10", e)
		}
		if e := s.acode(t, "approve", s.read(t).short); e.exit != 0 {
			t.Fatal(e)
		}
	}
	plan("Finished session of format 1", "done", firstLine, otherLine, "")
	begin()
	if e := s.acode(t, "resume"); e.exit != 0 {
		t.Fatal(e)
	}
	plan("Half-done session of format 1", "half", otherLine, firstLine, fixtureStop)
	begin()
	s.killInCommand(t)
	g := readGolden(t, s.store(), s.ledger())
	b, err := json.MarshalIndent(g, "", "  ")
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(fixtureFile), 0o755))
	must(t, os.WriteFile(goldenFile, append(b, '\n'), 0o644))
	pack(t, fixtureFile, s.root, "disk", "ledger")
	info, err := os.Stat(fixtureFile)
	must(t, err)
	t.Logf("%s: %d bytes", fixtureFile, info.Size())
	if info.Size() > 300<<10 {
		t.Errorf("%s: %d bytes are too many to keep", fixtureFile, info.Size())
	}
}

// killInCommand resumes, kills acode while its supervisor's command runs, and lets the
// command end.
func (s site) killInCommand(t *testing.T) {
	t.Helper()
	gate := filepath.Join(s.root, "user", "gate")
	must(t, os.WriteFile(gate, nil, 0o600))
	tracer := crash.NewTracer()
	defer tracer.Close()
	at := crash.Point{Role: crash.RoleCommand, N: 1, When: crash.After, Victim: crash.VictimGroup}
	isHold := func(c crash.Call) bool {
		return c.Path == s.ledger() && strings.Contains(string(c.Data), "finish/hold/")
	}
	res, err := tracer.Run(t.Context(), crash.Spec{Argv: s.argv("resume"), Env: s.environ(), Dir: s.ws(), Roots: []string{s.root}, At: at, Counts: isHold})
	must(t, err)
	if !res.Struck || res.Signal == 0 {
		t.Fatalf("resume: got %+v, want it killed", res)
	}
	must(t, os.Remove(gate))
	_, err = tracer.Wait(t.Context())
	must(t, err)
}

// pack writes files and directories below root into an archive. It omits times, owners
// and files that only the running machine uses.
func pack(t *testing.T, archive, root string, names ...string) {
	t.Helper()
	f, err := os.Create(archive)
	must(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	must(t, err)
	w := tar.NewWriter(z)
	for _, name := range names {
		must(t, filepath.WalkDir(filepath.Join(root, name), func(at string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(at, "-shm") || strings.Contains(at, "/store/log") || d.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
				return err
			}
			return packOne(w, root, at, d)
		}))
	}
	must(t, errors.Join(w.Close(), z.Close(), f.Close()))
}

func packOne(w *tar.Writer, root, at string, d fs.DirEntry) error {
	rel, err := filepath.Rel(root, at)
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: rel, Mode: int64(info.Mode().Perm()), Typeflag: tar.TypeDir}
	if d.IsDir() {
		return w.WriteHeader(h)
	}
	b, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(b))
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func unpack(t *testing.T, archive, root string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		must(t, err)
		at := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			must(t, os.MkdirAll(at, 0o700))
			must(t, os.Chmod(at, fs.FileMode(h.Mode)))
			continue
		}
		b, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(at, b, 0o600))
		must(t, os.Chmod(at, fs.FileMode(h.Mode)))
	}
}

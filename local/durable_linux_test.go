package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
)

// makeProcess opens the store, makes a session with a large blob, and prints both. It
// exits with 7 if the disk prevents that.
func makeProcess(home string) {
	ctx := context.Background()
	check := func(err error) {
		if errors.Is(err, session.ErrStoreIO) {
			os.Exit(7)
		}
		check(err)
	}
	s, err := local.Open(ctx, local.Short(local.Options{Home: home, Now: newClock().now}))
	check(err)
	id, err := s.NewID()
	check(err)
	w, err := s.Create(ctx, local.NewSession{ID: id, Task: "test", Workspace: "/ws", Plan: plan(1), Config: "cfg"})
	check(err)
	ref, err := w.Stage(ctx, bytes.NewReader(noise(largeBytes)), largeBytes)
	check(err)
	fmt.Println(id, ref.Hash)
	os.Exit(0)
}

const largeBytes = 70 << 10

// FR-017: a reported store and session survive a power cut right after the report. This
// holds if all directories are new, and if only those are new that a backup left out.
func TestPowerCutAfterMaking(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, home string){
		"nothing": func(*testing.T, string) {},
		"no_folders": func(t *testing.T, home string) {
			o, _ := closedSample(t)
			must(t, os.Remove(filepath.Join(o.Home, "ballast")))
			copyHome(t, o.Home, home)
			must(t, errors.Join(os.RemoveAll(filepath.Join(home, "heads")), os.RemoveAll(filepath.Join(home, "blobs"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			before(t, filepath.Join(root, "home"))
			initial, err := crash.Snapshot(root)
			must(t, err)
			calls := run(t, root, crash.Spec{Env: []string{
				"LOCAL_TEST_MAKE=" + filepath.Join(root, "home"),
				"GOCOVERDIR=" + t.TempDir(), // otherwise a program built for coverage prints a warning
			}}, 0)
			judged := 0
			for image, err := range crash.Images(initial, calls, crash.Options{Random: -1}) {
				must(t, err)
				if n := len(image.Calls); n == 0 || image.Calls[n-1].Kind != crash.KindAck {
					continue
				}
				judged++
				at := filepath.Join(t.TempDir(), strconv.Itoa(judged))
				must(t, image.Materialize(at))
				if err := judgeMade(filepath.Join(at, "home"), string(image.Calls[len(image.Calls)-1].Data)); err != nil {
					t.Errorf("%v: %v", image, err)
				}
			}
			if judged == 0 {
				t.Error("no image was judged")
			}
		})
	}
}

// A commit costs one flush of the disk's cache: it syncs only the log's data. An fsync
// would sync the time of the change in a second flush. The name of a log that may be new
// is synced after it. If the last sync of either fails, the commit fails. If an earlier
// one fails, SQLite writes the same again.
func TestCommitSyncsDataAlone(t *testing.T) {
	root := t.TempDir()
	home := filepath.Join(root, "home")
	syncs := func(c crash.Call) bool { return c.Kind == crash.KindSync }
	made, all, logs, names := 0, 0, 0, 0
	var last crash.Call
	// index of the last sync of the log and of its name among all syncs
	var lastLog, lastName int
	for _, c := range run(t, root, crash.Spec{Env: []string{"LOCAL_TEST_MAKE=" + home}, Counts: syncs}, 0) {
		name := filepath.Base(c.Path)
		if c.Created && name == "acode.db-wal" {
			made++
		}
		if !syncs(c) {
			continue
		}
		all++
		if strings.HasPrefix(name, "acode.db") && c.Name != "fdatasync" {
			t.Errorf("%v: want fdatasync", c)
		}
		if name == "acode.db-wal" {
			logs, lastLog = logs+1, all
		}
		if c.Path == home && filepath.Base(last.Path) == "acode.db-wal" {
			names, lastName = names+1, all
		}
		last = c
	}
	if made == 0 || names < made || logs < names+2 {
		t.Errorf("logs made %d, synced %d times, their directory %d times after it", made, logs, names)
	}
	for _, n := range []int{lastName, lastLog} {
		calls := run(t, root, crash.Spec{
			Env: []string{"LOCAL_TEST_MAKE=" + filepath.Join(root, strconv.Itoa(n))}, Counts: syncs,
			At: crash.Point{Role: crash.RoleAcode, N: n, When: crash.Fail, Errno: syscall.EIO},
		}, 7)
		if slices.ContainsFunc(calls, func(c crash.Call) bool { return c.Kind == crash.KindAck && c.FD == 1 }) {
			t.Errorf("sync %d failed, and the session was told", n)
		}
	}
}

// A failed write or sync while a store is made is reported with its code. It does not
// prevent the next process from making the store.
func TestMakingOnABrokenDisk(t *testing.T) {
	root := t.TempDir()
	counts := func(c crash.Call) bool { return c.Kind == crash.KindWrite || c.Kind == crash.KindSync }
	making := func(home string, n int) crash.Spec {
		return crash.Spec{
			Env: []string{"LOCAL_TEST_MAKE=" + home}, Counts: counts,
			At: crash.Point{Role: crash.RoleAcode, N: n, When: crash.Fail, Errno: syscall.EIO},
		}
	}
	all := 0
	for _, c := range run(t, root, making(filepath.Join(root, "whole"), 0), 0) {
		if counts(c) {
			all++
		}
	}
	step, taken := 23, 0 // test only some of them
	if long() {
		step = 1
	}
	for n := 1; n < all; n += step {
		taken++
		home := filepath.Join(root, strconv.Itoa(n))
		calls := run(t, root, making(home, n), 0, 7) // a store works without a ballast
		s := open(t, local.Short(local.Options{Home: home, Now: newClock().now}))
		create(t, s, 1)
		if r := verify(t, s); len(r.Problems) != 0 {
			t.Errorf("call %d of %d, %v: Verify: %v", n, all, calls[len(calls)-1], r.Problems)
		}
		must(t, s.Close())
	}
	t.Logf("%d of %d calls failed", taken, all)
}

// judgeMade looks for the session and the blob that said names.
func judgeMade(home, said string) error {
	var id, hash string
	if _, err := fmt.Sscan(said, &id, &hash); err != nil {
		return err
	}
	s, err := local.OpenRead(context.Background(), local.Options{Home: home})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Load(context.Background(), session.ID(id)); err != nil {
		return err
	}
	r, err := s.OpenBlob(context.Background(), hash)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// L6: nothing is delivered before it is durable. If the sync fails, Outbox returns an
// error.
func TestOutboxBeginsWithADurableStore(t *testing.T) {
	o := options(t)
	create(t, open(t, o), 1)
	killed := filepath.Join(t.TempDir(), "home") // its log is not copied back
	copyHome(t, o.Home, killed)
	synced := func(c crash.Call) bool { return c.Kind == crash.KindSync }
	for n, exit := range []int{0, 7} { // with no failing sync, and with the first one failing
		calls := run(t, killed, crash.Spec{
			Env: []string{"LOCAL_TEST_OUTBOX=" + killed}, At: crash.Point{Role: crash.RoleAcode, N: n, When: crash.Fail, Errno: syscall.EIO}, Counts: synced,
		}, exit)
		begun := slices.ContainsFunc(calls, func(c crash.Call) bool { return c.Kind == crash.KindAck && c.FD == 1 })
		if begun != (exit == 0) || !slices.ContainsFunc(calls, synced) {
			t.Errorf("failing sync %d: the drainer began: %v", n, begun)
		}
	}
}

// outboxProcess opens the outbox and reports that. It exits with 7 if it could not.
func outboxProcess(home string) {
	s, err := local.Open(context.Background(), local.Options{Home: home, Now: newClock().now})
	check(err)
	if _, err := s.Outbox(context.Background()); errors.Is(err, session.ErrStoreIO) {
		os.Exit(7)
	} else {
		check(err)
	}
	fmt.Println("begun")
	os.Exit(0)
}

// Opening, using and closing a store leaves no file open, because a syncer looks at
// stores for months.
func TestNoFileStaysOpen(t *testing.T) {
	opts := options(t)
	must(t, create(t, open(t, opts), 1).Close())
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the garbage collector would close them
	before := 0
	for i := range 4 {
		s := open(t, opts)
		w := create(t, s, 1)
		large, err := w.Stage(t.Context(), bytes.NewReader(noise(largeBytes)), largeBytes)
		must(t, err)
		appendAll(t, w, session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Executing, To: session.Paused, Reason: session.ReasonSignal, Manifest: large.Hash}})
		must(t, errors.Join(w.Close(), s.Sweep()))
		again := load(t, s, w.Session().ID)
		_, err = content(t, again, large.Hash)
		must(t, err)
		must(t, again.Close())
		o := openOutbox(t, s)
		_, err = o.Delivery(t.Context(), w.Session().ID, 0, 10, 1<<20)
		must(t, errors.Join(err, o.Close()))
		rd := openRead(t, opts)
		if r := verify(t, rd); len(r.Problems) != 0 {
			t.Errorf("Verify: %v", r.Problems)
		}
		must(t, errors.Join(rd.Close(), s.Close()))
		open, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		if i == 0 {
			before = len(open)
		}
		if len(open) > before {
			t.Fatalf("open files: got %d, want %d as after the first time", len(open), before)
		}
	}
}

// run starts the test binary as spec says. The process must exit with one of exits.
func run(t *testing.T, root string, spec crash.Spec, exits ...int) (calls []crash.Call) {
	t.Helper()
	tracer := crash.NewTracer()
	defer tracer.Close()
	var said bytes.Buffer
	spec.Env = append(spec.Env, "GORACE=atexit_sleep_ms=0") // with the race detector each exit would otherwise take a second
	spec.Argv, spec.Dir, spec.Roots, spec.Stdout, spec.Stderr = []string{os.Args[0]}, root, []string{root}, &said, &said
	spec.Record = func(c crash.Call) { calls = append(calls, c) }
	res, err := tracer.Run(t.Context(), spec)
	if err == nil {
		_, err = tracer.Wait(t.Context())
	}
	if err != nil || !slices.Contains(exits, res.ExitCode) {
		t.Fatalf("process: exit %d, want %v, %v: %s", res.ExitCode, exits, err, said.Bytes())
	}
	return calls
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/google/go-cmp/cmp"
)

// essence returns the parts of the calls that must be equal in two runs of one program.
func essence(calls []crash.Call) []string {
	var lines []string
	for _, c := range calls {
		lines = append(lines, fmt.Sprintf("%s %q", c, c.Data))
	}
	return lines
}

func TestCountsAreEqualBetweenRuns(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	spec := b.spec("save")
	spec.Stdout = &out
	first, calls := b.run(spec)
	if first.ExitCode != 0 || first.Struck || len(first.Killed) != 0 {
		t.Fatalf("Run: got %+v, want a clean end", first)
	}
	if got, want := out.String(), "saved 1\nsaved 2\nsaved 3\n"; got != want {
		t.Errorf("stdout: got %q, want %q", got, want)
	}
	// Each save makes five calls: open, write, fsync, rename, fsync of the directory.
	if got, want := first.Calls, map[string]int{crash.RoleAcode: 5 * saves}; !cmp.Equal(got, want) {
		t.Errorf("Calls: got %v, want %v", got, want)
	}
	for range 3 {
		b.clear()
		again, calls2 := b.run(spec)
		if diff := cmp.Diff(first.Calls, again.Calls); diff != "" {
			t.Errorf("Calls of a second run (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(essence(calls), essence(calls2)); diff != "" {
			t.Errorf("records of a second run (-first +second):\n%s", diff)
		}
	}
}

func TestRecordOfASave(t *testing.T) {
	b := newBench(t)
	_, calls := b.run(b.spec("save"))
	var got []string
	for _, c := range calls[:6] {
		got = append(got, fmt.Sprintf("%s %s", c.Kind, strings.TrimPrefix(c.Path, b.dir+"/")))
	}
	want := []string{"open record-1.tmp", "write record-1.tmp", "sync record-1.tmp", "rename record-1.tmp",
		"sync " + b.dir, "ack /memfd:crash-stdout"}
	got[5] = strings.TrimSuffix(got[5], " (deleted)")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("records (-want +got):\n%s", diff)
	}
	if !calls[0].Created || calls[0].Inode != calls[1].Inode || calls[1].Inode != calls[3].Inode {
		t.Errorf("records: open, write and rename name different files: %+v", calls[:4])
	}
	if string(calls[1].Data) != content(1) || string(calls[5].Data) != "saved 1\n" {
		t.Errorf("Data: got %q and %q", calls[1].Data, calls[5].Data)
	}
	for i, c := range calls[1:] {
		if c.Begin <= calls[i].End {
			t.Errorf("call %d begins at %d, before its predecessor ends at %d", i+1, c.Begin, calls[i].End)
		}
	}
}

// state returns the files of a directory with their content.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// A kill before a call and a kill after it differ by exactly that call.
func TestKillAtEveryPoint(t *testing.T) {
	b := newBench(t)
	full, _ := b.run(b.spec("save"))
	total := full.Calls[crash.RoleAcode]
	killed := func(n int, when crash.When) (map[string]string, crash.Result, []crash.Call) {
		b.clear()
		spec := b.spec("save")
		spec.At = crash.Point{Role: crash.RoleAcode, N: n, When: when}
		res, calls := b.run(spec)
		if !res.Struck || res.Signal != syscall.SIGKILL || !slices.Equal(res.Killed, []int{res.PID}) {
			t.Fatalf("kill %s call %d: got %+v, want the root killed", when, n, res)
		}
		if last := calls[len(calls)-1]; last.N != n || last.Ending == crash.Returned {
			t.Errorf("kill %s call %d: last record is %v", when, n, last)
		}
		return state(t, b.dir), res, calls
	}
	b.clear()
	want := map[string]string{}
	for n := 1; n <= total; n++ {
		before, res, calls := killed(n, crash.Before)
		if diff := cmp.Diff(want, before); diff != "" {
			t.Errorf("kill before %v (-want +got):\n%s", res.At, diff)
		}
		if ending := calls[len(calls)-1].Ending; ending != crash.Prevented {
			t.Errorf("kill before call %d: ending %q", n, ending)
		}
		apply(want, res.At)
		if after, _, _ := killed(n, crash.After); !cmp.Equal(want, after) {
			t.Errorf("kill after %v (-want +got):\n%s", res.At, cmp.Diff(want, after))
		}
		inside, _, _ := killed(n, crash.Inside)
		if res.At.Kind == crash.KindWrite {
			name := filepath.Base(res.At.Path)
			if got, half := inside[name], want[name][:len(want[name])/2]; got != half {
				t.Errorf("kill inside %v: %d bytes were written, want %d", res.At, len(got), len(half))
			}
		}
	}
}

// apply applies the effect of a call of toySave to files.
func apply(files map[string]string, c crash.Call) {
	name := filepath.Base(c.Path)
	switch c.Kind {
	case crash.KindOpen:
		files[name] = ""
	case crash.KindWrite:
		files[name] = string(c.Data)
	case crash.KindRename:
		files[filepath.Base(c.NewPath)] = files[name]
		delete(files, name)
	}
}

// All threads share one count.
func TestCountsOverAllThreads(t *testing.T) {
	b := newBench(t)
	full, calls := b.run(b.spec("threads"))
	if got, want := full.Calls[crash.RoleAcode], threads*(1+writes); got != want {
		t.Fatalf("Calls: got %d, want %d", got, want)
	}
	tids := map[int]bool{}
	for i, c := range calls {
		tids[c.TID] = true
		if i > 0 && c.End <= calls[i-1].End {
			t.Fatalf("record %d ends at %d, not after %d", i, c.End, calls[i-1].End)
		}
	}
	if len(tids) < 2 {
		t.Fatalf("toy used %d threads: it proves nothing", len(tids))
	}
	for _, n := range []int{1, 50, 117} {
		b.clear()
		spec := b.spec("threads")
		spec.At = crash.Point{Role: crash.RoleAcode, N: n, When: crash.Before}
		res, _ := b.run(spec)
		if !res.Struck || res.Calls[crash.RoleAcode] < n || res.Signal != syscall.SIGKILL {
			t.Errorf("kill before call %d: got %+v", n, res)
		}
		size := 0
		for _, text := range state(t, b.dir) {
			size += len(text)
		}
		if size >= n {
			t.Errorf("kill before call %d: %d bytes were written", n, size)
		}
	}
}

// A detached process outlives the root and continues, because it stays traced.
func TestSurvivorsStayTraced(t *testing.T) {
	b := newBench(t)
	var calls []crash.Call
	spec := b.spec("parent")
	spec.Record = func(c crash.Call) { calls = append(calls, c) }
	res, err := b.Run(t.Context(), spec)
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("Run: %+v, %v", res, err)
	}
	res, err = b.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := state2(t, b.dir, "exit"); got != "request go, exit 0" {
		t.Errorf("exit record: got %q", got)
	}
	if got := state2(t, b.dir, "stdout"); got != "worked\non\n" {
		t.Errorf("stdout of the command: got %q", got)
	}
	kinds := map[string]map[crash.Kind]int{}
	for _, c := range calls {
		if kinds[c.Role] == nil {
			kinds[c.Role] = map[crash.Kind]int{}
		}
		kinds[c.Role][c.Kind]++
	}
	want := map[string]map[crash.Kind]int{
		// acode binds the socket and sends a request. The listening socket is unlinked at
		// the end.
		crash.RoleAcode: {crash.KindExec: 1, crash.KindOpen: 1, crash.KindWrite: 1, crash.KindSend: 2, crash.KindUnlink: 1},
		crash.RoleSupervisor: {crash.KindExec: 1, crash.KindOpen: 2, crash.KindWrite: 1, crash.KindSend: 1,
			crash.KindSync: 2, crash.KindRename: 1},
		crash.RoleCommand: {crash.KindExec: 1, crash.KindWrite: 2},
	}
	for _, k := range kinds {
		// A binary with coverage prints a warning on descriptor 2.
		delete(k, crash.KindAck)
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("calls of each role (-want +got):\n%s", diff)
	}
	if res.Calls[crash.RoleSupervisor] != 8 {
		t.Errorf("Wait: got %v, want the calls of survivors in it", res.Calls)
	}
}

func state2(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestVictims(t *testing.T) {
	at := func(role string, n int, when crash.When, v crash.Victim) crash.Point {
		return crash.Point{Role: role, N: n, When: when, Victim: v}
	}
	tests := map[string]struct {
		at       crash.Point
		rootDies bool
		killed   int
		// recorded means that the supervisor wrote its exit record.
		recorded bool
		// commanded means that the command ran.
		commanded bool
	}{
		"before_the_start_of_the_supervisor": {at(crash.RoleAcode, 2, crash.Before, crash.VictimSelf), true, 2, false, false},
		"after_the_start_of_the_supervisor":  {at(crash.RoleAcode, 2, crash.After, crash.VictimGroup), true, 1, false, false},
		"root_after_its_request":             {at(crash.RoleAcode, 5, crash.After, crash.VictimGroup), true, 1, true, true},
		"root_and_supervisor":                {at(crash.RoleAcode, 5, crash.After, crash.VictimBoth), true, 2, false, false},
		"supervisor_by_the_root":             {at(crash.RoleAcode, 5, crash.Before, crash.VictimSupervisor), false, 1, false, false},
		"supervisor_before_exec":             {at(crash.RoleSupervisor, 3, crash.Before, crash.VictimSelf), false, 2, false, false},
		"supervisor_after_exec":              {at(crash.RoleSupervisor, 3, crash.After, crash.VictimSelf), false, 1, false, true},
		"supervisor_before_its_record":       {at(crash.RoleSupervisor, 7, crash.Before, crash.VictimSelf), false, 1, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec := b.spec("parent")
			spec.At = tt.at
			res, _ := b.run(spec)
			if !res.Struck || len(res.Killed) != tt.killed || (res.Signal == syscall.SIGKILL) != tt.rootDies {
				t.Errorf("Run: got %+v, want %d killed, root among them %v", res, tt.killed, tt.rootDies)
			}
			if got := state2(t, b.dir, "exit") != ""; got != tt.recorded {
				t.Errorf("exit record: got %v, want %v", got, tt.recorded)
			}
			if got := state2(t, b.dir, "stdout") != ""; got != tt.commanded {
				t.Errorf("output of the command: got %v, want %v", got, tt.commanded)
			}
		})
	}
}

// A run begins while a survivor of the previous run still works under the same tracer.
func TestRunsFollowOneAnother(t *testing.T) {
	b := newBench(t)
	if _, err := b.Run(t.Context(), b.spec("parent")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		res, err := b.Run(t.Context(), b.spec("fail"))
		if err != nil || res.ExitCode != 7 {
			t.Fatalf("Run: got %+v, %v, want exit 7", res, err)
		}
	}
	if _, err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := state2(t, b.dir, "exit"); got == "" {
		t.Error("the survivor did not end its work")
	}
}

func TestRunFaults(t *testing.T) {
	b := newBench(t)
	if _, err := b.Run(t.Context(), crash.Spec{}); err == nil {
		t.Error("Run without a program: no error")
	}
	_, err := b.Run(t.Context(), crash.Spec{Argv: []string{"/no/such/program"}})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Run of a missing program: got %v", err)
	}
	notProgram := filepath.Join(b.dir, "text")
	if err := os.WriteFile(notProgram, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(t.Context(), crash.Spec{Argv: []string{notProgram}}); err == nil {
		t.Error("Run of a file that is no program: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Run(ctx, b.spec("hang")); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with its context ended: got %v", err)
	}
}

func TestCloseKillsSurvivors(t *testing.T) {
	b := newBench(t)
	got := make(chan crash.Result)
	started := make(chan struct{}, 1)
	spec := b.spec("hang")
	spec.Role = func(p crash.Process) string {
		started <- struct{}{}
		return "hanging"
	}
	go func() {
		res, err := b.Run(context.Background(), spec)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		got <- res
	}()
	<-started
	alive, err := b.Survivors()
	if err != nil || len(alive) != 1 {
		t.Fatalf("Survivors: got %v, %v, want one", alive, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if res := <-got; res.Signal != syscall.SIGKILL {
		t.Errorf("Run: got %+v, want it killed", res)
	}
	if _, err := b.Run(t.Context(), b.spec("fail")); !errors.Is(err, crash.ErrClosed) {
		t.Errorf("Run after Close: got %v, want ErrClosed", err)
	}
	if _, err := b.Wait(t.Context()); !errors.Is(err, crash.ErrClosed) {
		t.Errorf("Wait after Close: got %v, want ErrClosed", err)
	}
	for pid := range alive {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: got %v, want it gone", pid, err)
		}
	}
}

func TestKillByRole(t *testing.T) {
	b := newBench(t)
	started := make(chan struct{}, 1)
	spec := b.spec("hang")
	spec.Role = func(p crash.Process) string {
		started <- struct{}{}
		return "hanging"
	}
	ended := make(chan error)
	go func() {
		_, err := b.Run(context.Background(), spec)
		ended <- err
	}()
	<-started
	if pids, err := b.Kill("nobody"); err != nil || len(pids) != 0 {
		t.Errorf("Kill of no process: got %v, %v", pids, err)
	}
	if pids, err := b.Kill("hanging"); err != nil || len(pids) != 1 {
		t.Errorf("Kill: got %v, %v, want one", pids, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

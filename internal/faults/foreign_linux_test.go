package faults_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/internal/disk"
)

// foreignVariable tells a test binary to serve the file system of one directory at
// another.
const foreignVariable = "ACODE_FAULTS_FOREIGN"

// serveForeign serves back at dir until its input ends. A process that starts others in a
// directory that it serves itself may deadlock.
func serveForeign(back, dir string) {
	unmount, err := disk.Foreign(back, dir)
	if err == nil {
		fmt.Println("mounted")
		// Any end of the input counts.
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = unmount()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// back returns the real directory behind a workspace on another file system.
func (s site) back() string { return filepath.Join(s.root, "back") }

// foreignSite is a site whose workspace is on a file system of disk.Foreign.
func foreignSite(t *testing.T) site {
	t.Helper()
	s := plainSite(t)
	must(t, os.Mkdir(s.back(), 0o755))
	t.Cleanup(s.mountForeign(t))
	return s
}

// mountForeign serves the workspace until unmount is called.
func (s site) mountForeign(t *testing.T) (unmount func()) {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), foreignVariable+"="+s.back()+":"+s.ws())
	server.Stderr = os.Stderr
	end, err := server.StdinPipe()
	must(t, err)
	told, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	_, err = bufio.NewReader(told).ReadString('\n')
	must(t, err)
	return func() { must(t, errors.Join(end.Close(), server.Wait())) }
}

// A change of a file may happen although its answer is an error, as over a network. acode
// undoes it like any other change, so the next attempt sees the same files as the first
// one.
func TestLostAnswer(t *testing.T) {
	if !canMount() {
		t.Log("nothing may be mounted here")
		return
	}
	for name, c := range map[string]struct{ step, want string }{
		"write_new":  {"write: {path: b, content: new}", "a old, b new, c left"},
		"write_over": {"write: {path: a, content: new}", "a new, c left"},
		"edit":       {"edit: {path: a, old: old, new: older}", "a older, c left"},
		"move":       {"move: {from: a, to: d/b}", "c left, d/b old"},
		"delete":     {"delete: {path: a}", "c left"},
		"changes": {"changes: [{edit: {path: a, old: old, new: older}}, {write: {path: b, content: new}}, {delete: {path: c}}]",
			"a older, b new"},
		"moves": {"changes: [{move: {from: a, to: d/b}}, {move: {from: c, to: a}}, {edit: {path: a, old: left, new: moved}}, {write: {path: b, content: new}}]",
			"a moved, b new, d/b old"},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				if got, lost := lostAnswer(t, c.step, n); got != c.want {
					t.Errorf("answer %d: got %q, want %q", n, got, c.want)
				} else if !lost {
					if n == 0 {
						t.Error("no answer was lost")
					}
					return
				}
			}
		})
	}
}

// lostAnswer loses the n-th answer of a run, from 0. It returns the files at the end, and
// whether an answer was lost.
func lostAnswer(t *testing.T, step string, n int) (end string, lost bool) {
	t.Helper()
	s := foreignSite(t)
	must(t, errors.Join(
		os.WriteFile(filepath.Join(s.back(), "a"), []byte("old"), 0o644), os.WriteFile(filepath.Join(s.back(), "c"), []byte("left"), 0o644),
		os.WriteFile(s.plan(), []byte("{version: 1, task: t, tasks: [{id: t, steps: [{"+step+"}]}]}"), 0o644),
		os.WriteFile(disk.Lose(s.back()), fmt.Append(nil, n), 0o644)))
	e := s.acode(t, "run", "--plan", s.plan())
	lost = os.Remove(disk.Lose(s.back())) != nil
	if lost != (e.exit != 0) {
		t.Errorf("answer %d was lost: %v, %v", n, lost, e)
	}
	for range 3 {
		if e.exit != 0 {
			e = s.acode(t, "resume")
		}
	}
	if e.exit != 0 {
		t.Errorf("answer %d: %v", n, e)
	}
	var got []string
	for _, name := range []string{"a", "b", "c", "d/b"} {
		if b, err := os.ReadFile(filepath.Join(s.back(), name)); err == nil {
			got = append(got, name+" "+string(b))
		}
	}
	return strings.Join(got, ", "), lost
}

// On a file system that ignores case, a step that means two files by names that differ
// only in case fails and changes nothing. A step that means one file works as usual.
func TestCaseThatDoesNotCount(t *testing.T) {
	if !canMount() {
		t.Log("nothing may be mounted here")
		return
	}
	for name, c := range map[string]struct {
		step string
		exit int
		want string
	}{
		"new_twice":       {"changes: [{write: {path: n, content: x}}, {write: {path: N, content: y}}]", 22, "a old"},
		"new_below_twice": {"changes: [{write: {path: d/n, content: x}}, {write: {path: D/n, content: y}}]", 22, "a old"},
		"new_below":       {"changes: [{write: {path: d/n, content: x}}, {write: {path: D/m, content: y}}]", 0, "a old, d/m y, d/n x"},
		"there_twice":     {"changes: [{write: {path: a, content: x}}, {edit: {path: A, old: old, new: y}}]", 22, "a old"},
		"other_case":      {"edit: {path: A, old: old, new: new}", 0, "a new"},
		"moved_to_itself": {"move: {from: a, to: A}", 22, "a old"},
		"moved_over":      {"changes: [{write: {path: b, content: x}}, {move: {from: A, to: B}}]", 22, "a old"},
	} {
		t.Run(name, func(t *testing.T) {
			s := foreignSite(t)
			must(t, errors.Join(
				os.WriteFile(filepath.Join(s.back(), "a"), []byte("old"), 0o644),
				os.WriteFile(s.plan(), []byte("{version: 1, task: t, tasks: [{id: t, steps: [{"+c.step+"}]}]}"), 0o644)))
			e := s.acode(t, "run", "--plan", s.plan())
			if e.exit != c.exit {
				t.Errorf("%v; want exit %d", e, c.exit)
			}
			var got []string
			must(t, filepath.WalkDir(s.back(), func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(name)
				rel, _ := filepath.Rel(s.back(), name)
				got = append(got, rel+" "+string(b))
				return err
			}))
			if end := strings.Join(got, ", "); end != c.want {
				t.Errorf("got %q, want %q", end, c.want)
			}
		})
	}
}

// roundsOfTrouble is the number of sessions whose workspace calls fail at random.
const roundsOfTrouble = 12

// B7: calls in a workspace fail at random, with or without an effect, and acode is killed
// too. Once calls succeed again, the session completes with each effect once.
func TestTroubledWorkspace(t *testing.T) {
	if !canMount() {
		t.Log("nothing may be mounted here")
		return
	}
	// troubled is the most resumes with failing calls.
	const troubled = 30
	for round := range roundsOfTrouble {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			s := foreignSite(t)
			// Starting acode in the workspace would fail.
			s.away = true
			trouble := disk.Trouble(s.back())
			must(t, os.WriteFile(trouble, []byte("15"), 0o644))
			e := s.acode(t, "run", "--plan", s.plan())
			met := e.exit
			for n := 0; n < 2*troubled && s.read(t).state != "completed"; n++ {
				if n == troubled {
					must(t, os.WriteFile(trouble, nil, 0o644))
				}
				// acode refused the run.
				if s.read(t).sessions == 0 {
					e = s.acode(t, "run", "--plan", s.plan())
				} else if n%2 == 0 && n < troubled {
					at := crash.Point{Role: crash.RoleAcode, N: 1 + rand.IntN(100), When: crash.After, Victim: crash.VictimSelf}
					e, _, _ = s.traced(t, at, nil, "resume", "--on-changes=continue")
				} else {
					e = s.acode(t, "resume", "--on-changes=continue")
				}
				met = max(met, e.exit)
			}
			must(t, os.WriteFile(trouble, nil, 0o644))
			for _, fault := range s.faultsAtEnd(t) {
				t.Errorf("%s, after %v", fault, e)
			}
			t.Logf("the worst exit status was %d", met)
		})
	}
}

package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planText fills the disk. It holds files of 48 KiB and more, which also take room in the
// store when they are edited, and commands that sign a ledger outside the disk.
var planText = func() string {
	q := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			// A string always has a JSON form.
			panic(err)
		}
		return string(b)
	}
	var b strings.Builder
	b.WriteString("version: 1\ntask: Fill the disk\ntasks:\n")
	step := func(task, id, body string) {
		fmt.Fprintf(&b, "      - {id: %s, name: %s, %s}\n", id, task+"/"+id, body)
	}
	for i, task := range tasks {
		fmt.Fprintf(&b, "  - id: %s\n    steps:\n", task)
		name := task + ".txt"
		step(task, "write-a-large-file", fmt.Sprintf("write: {path: %s, content: %s}", name, q(large(i))))
		step(task, "sign-the-ledger", `run: "`+signing+`"`)
		step(task, "edit-the-large-file", fmt.Sprintf("edit: {path: %s, old: %s, new: %s}", name, q(firstLine), q(otherLine)))
		step(task, "sign-it-again", `run: "`+signing+`"`)
	}
	return b.String()
}()

// signing is the command of the plan that signs the ledger.
const signing = `echo \"$ACODE_IDEMPOTENCY_KEY\" >> \"$LEDGER\"`

// tasks, and the steps of each that sign the ledger. The names are too long to occur by
// chance.
var (
	tasks = []string{"first-of-the-tasks", "second-of-the-tasks", "third-of-the-tasks"}
	signs = []string{"sign-the-ledger", "sign-it-again"}
)

const (
	stepsOfTask = 4
	firstLine   = "the line that is first\n"
	otherLine   = "another line is first\n"
)

// large returns text that does not compress well. The second file is too large for the
// database.
func large(i int) string {
	rng := rand.New(rand.NewPCG(7, uint64(i)))
	size := []int{48 << 10, 80 << 10, 56 << 10}[i]
	var b strings.Builder
	b.WriteString(firstLine)
	for b.Len() < size {
		fmt.Fprintf(&b, "%016x%016x\n", rng.Uint64(), rng.Uint64())
	}
	return b.String()
}

// wanted returns the workspace at the end.
func wanted() map[string]string {
	files := map[string]string{}
	for i, task := range tasks {
		files[task+".txt"] = strings.Replace(large(i), firstLine, otherLine, 1)
	}
	return files
}

// faultsAtEnd compares the end of a session with the plan: ledger, workspace, and a copy
// of the store. It lists the differences.
func (s site) faultsAtEnd(t testing.TB) []string {
	t.Helper()
	faults := s.ledgerFaults(t, true)
	seen := map[string]string{}
	must(t, filepath.WalkDir(s.ws(), func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(at)
		rel, rerr := filepath.Rel(s.ws(), at)
		seen[rel] = string(b)
		return errors.Join(err, rerr)
	}))
	want := wanted()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if seen[name] != want[name] {
			faults = append(faults, "lost: "+name+" has the wrong content")
		}
		delete(seen, name)
	}
	for name := range seen {
		faults = append(faults, "wrong: "+name+" is there")
	}
	d := s.read(t)
	if d.sessions != 1 || d.state != "completed" || len(d.receipts) != stepsOfTask*len(tasks) {
		faults = append(faults, fmt.Sprintf("wrong: the store has %d sessions, the last %s with %d receipts", d.sessions, d.state, len(d.receipts)))
	}
	for name, n := range d.receipts {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("repeated: %s has %d receipts", name, n))
		}
	}
	return faults
}

// ledgerFaults lists repeated and unknown lines and, at the end, missing ones.
func (s site) ledgerFaults(t testing.TB, atEnd bool) []string {
	t.Helper()
	b, err := os.ReadFile(s.ledger())
	must(t, err)
	var faults []string
	left := strings.Count(string(b), "\n")
	for _, task := range tasks {
		for _, id := range signs {
			n := strings.Count(string(b), ":"+task+"/"+id+"/main:")
			left -= n
			switch {
			case n == 0 && atEnd:
				faults = append(faults, "lost: "+task+"/"+id)
			case n > 1:
				faults = append(faults, fmt.Sprintf("repeated: %s/%s, %d times", task, id, n))
			}
		}
	}
	if left != 0 {
		faults = append(faults, fmt.Sprintf("wrong: %d lines of the ledger belong to no step", left))
	}
	return faults
}

// The judge passes an undisturbed run and fails a program that does nothing.
func TestJudgeHasAControl(t *testing.T) {
	s := plainSite(t)
	idle := plainSite(t)
	idle.program = "/bin/true"
	e := s.acode(t, "run", "--plan", s.plan())
	if f := s.faultsAtEnd(t); e.exit != 0 || len(f) != 0 {
		t.Errorf("undisturbed: %v: %v", e, f)
	}
	if got, want := len(e.told()), stepsOfTask*len(tasks); got != want {
		t.Errorf("reported: got %d steps done, want %d", got, want)
	}
	idle.acode(t, "run", "--plan", idle.plan())
	if f := idle.faultsAtEnd(t); len(f) < len(tasks)*(1+len(signs))+1 {
		t.Errorf("/bin/true: got %v, want all missing", f)
	}
}

package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Kind is what a step does.
type Kind string

// The kinds of steps.
const (
	KindRead    Kind = "read"
	KindSearch  Kind = "search"
	KindWrite   Kind = "write"
	KindEdit    Kind = "edit"
	KindDelete  Kind = "delete"
	KindMove    Kind = "move"
	KindChanges Kind = "changes"
	KindRun     Kind = "run"
	KindApprove Kind = "approve"
)

// OnFailure says what a failed step does to its session.
type OnFailure string

// The policies for a failed step.
const (
	// the session pauses; resume runs the step again
	FailurePauses OnFailure = "pause"
	// the session is failed for good
	FailureFails OnFailure = "fail"
	// other branches of the DAG go on, then it pauses
	FailureContinues OnFailure = "continue"
)

// MostParallel bounds how many steps of a session may run at once.
const MostParallel = 64

// Plan is what a session does: tasks in a DAG, each with steps in order. It is checked
// before it gets here and never changes once the session has started.
type Plan struct {
	Version   int       `json:"version"`
	Task      string    `json:"task"`
	OnFailure OnFailure `json:"on_failure"`

	// MaxParallel is how many steps may run at once, at most MostParallel. In a session's
	// plan it is the number with which the session started; 0 in a plan that no session
	// has yet: the configuration says.
	MaxParallel int `json:"max_parallel,omitempty"`

	Params []Param `json:"params,omitempty"`
	// variables that commands read, and that cannot be seen to
	Inputs []string `json:"inputs,omitempty"`
	Tasks  []Task   `json:"tasks"`
}

// Task is a node of the DAG.
type Task struct {
	ID        string   `json:"id"`
	Title     string   `json:"title,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	Steps     []Step   `json:"steps"`
}

// Step is one unit of work. Exactly the field that its Kind names is set; write, edit,
// delete, move and changes all use Changes.
type Step struct {
	ID      string   `json:"id"`
	Name    string   `json:"name,omitempty"`
	Kind    Kind     `json:"kind"`
	Read    *Read    `json:"read,omitempty"`
	Search  *Search  `json:"search,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	// the question
	Approve string `json:"approve,omitempty"`
}

// Read hashes the files that a glob names; ** crosses directories.
type Read struct {
	Path string `json:"path"`
}

// Search looks for an RE2 pattern in the files below Path.
type Search struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

// Change is one change of files. Op is KindWrite, KindEdit, KindDelete or KindMove.
type Change struct {
	Op Kind `json:"op"`
	// write, edit, delete: slash-separated, relative to the workspace
	Path string `json:"path,omitempty"`
	// write
	Content string `json:"content,omitempty"`
	// write: permission bits; 0 keeps the file's own, 0644 for a new one
	Mode uint32 `json:"mode,omitempty"`
	// edit
	Old string `json:"old,omitempty"`
	// edit
	New string `json:"new,omitempty"`
	// edit: replace every match instead of requiring exactly one
	All bool `json:"all,omitempty"`
	// move
	From string `json:"from,omitempty"`
	// move
	To string `json:"to,omitempty"`
}

// OnInterrupt says what becomes of a command whose outcome stays unknown.
type OnInterrupt string

// The policies for an unknown outcome.
const (
	InterruptAsks   OnInterrupt = "ask"
	InterruptReruns OnInterrupt = "rerun"
	InterruptDone   OnInterrupt = "done"
	InterruptFails  OnInterrupt = "fail"
)

// Run is a command. Shell and Argv exclude each other.
type Run struct {
	// text for a shell
	Shell string `json:"shell,omitempty"`
	// the program that takes Shell as its last argument; empty means /bin/sh -e -c
	With []string `json:"with,omitempty"`
	// without a shell
	Argv []string `json:"argv,omitempty"`
	// relative to the workspace; empty is the workspace
	Dir string            `json:"dir,omitempty"`
	Env map[string]string `json:"env,omitempty"`
	// 0 means none
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Capture string        `json:"capture,omitempty"`
	Check   string        `json:"check,omitempty"`
	// empty means ask
	OnInterrupt OnInterrupt `json:"on_interrupt,omitempty"`
	// durable: false; no syncfs after the command
	Volatile bool `json:"volatile,omitempty"`
	// nothing runs beside it
	Exclusive bool `json:"exclusive,omitempty"`
	// on a pseudo-terminal; excludes Capture
	TTY bool `json:"tty,omitempty"`
}

// Command gives the argument vector that is executed.
func (r Run) Command() []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	if len(r.With) > 0 {
		return append(slices.Clone(r.With), r.Shell)
	}
	return []string{"/bin/sh", "-e", "-c", r.Shell}
}

// Asking gives the check of r as a command. It runs without -e: its last command decides.
func (r Run) Asking() *Run {
	return &Run{Argv: []string{"/bin/sh", "-c", r.Check}, Dir: r.Dir, Env: r.Env, Timeout: r.Timeout, Volatile: true}
}

// Foresee says how an unknown outcome of r is decided: by its check, then by what a
// person said beforehand (empty: nothing), then by on_interrupt, then by a person.
func (r Run) Foresee(said OnInterrupt) string {
	then := "a person has to say"
	switch {
	case said == InterruptAsks || said == "" && (r.OnInterrupt == "" || r.OnInterrupt == InterruptAsks):
	case said != "":
		then = "the given answer says " + string(said)
	default:
		then = "on_interrupt says " + string(r.OnInterrupt)
	}
	if r.Check != "" {
		then = "its check is asked; where that cannot tell, " + then
	}
	return then
}

// Label is what people see: the step's name, else what it does.
func (s Step) Label() string {
	if s.Name != "" {
		return s.Name
	}
	switch s.Kind {
	case KindRead:
		return "Read " + s.Read.Path
	case KindSearch:
		return "Search " + s.Search.Pattern + " in " + s.Search.Path
	case KindRun:
		return "Run " + firstLine(strings.Join(s.Run.words(), " "))
	case KindApprove:
		return firstLine(s.Approve)
	case KindChanges:
		return fmt.Sprintf("Change %d files", len(s.Changes))
	}
	if len(s.Changes) == 1 {
		return s.Changes[0].label()
	}
	return string(s.Kind)
}

func (r Run) words() []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	return []string{r.Shell}
}

func (c Change) label() string {
	switch c.Op {
	case KindMove:
		return "Move " + c.From + " to " + c.To
	case KindEdit:
		return "Edit " + c.Path
	case KindDelete:
		return "Delete " + c.Path
	}
	return "Write " + c.Path
}

func firstLine(s string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if more && rest != "" {
		return line + " …"
	}
	return line
}

// Paths gives the paths that the intent of s names, each once.
func (s Step) Paths() (paths []string) {
	for _, c := range s.Changes {
		for _, path := range []string{c.Path, c.From, c.To} {
			if path != "" && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// WaitsFor says why s does not begin while other is in progress; empty where it does.
func (s *Step) WaitsFor(other *Step) string {
	if s.Kind == KindApprove || other.Kind == KindApprove {
		return ""
	}
	if other.Run != nil && other.Run.Exclusive || s.Run != nil && s.Run.Exclusive {
		return "nothing runs beside an exclusive command"
	}
	paths := other.Paths()
	for _, path := range s.Paths() {
		if slices.Contains(paths, path) {
			return "both change " + path
		}
	}
	return ""
}

// Steps counts the steps of all tasks.
func (p *Plan) Steps() int {
	n := 0
	for i := range p.Tasks {
		n += len(p.Tasks[i].Steps)
	}
	return n
}

// All walks the steps of all tasks, in the order in which they are written. A step is the
// plan's own, not a copy.
func (p *Plan) All() iter.Seq2[StepID, *Step] {
	return func(yield func(StepID, *Step) bool) {
		for i := range p.Tasks {
			t := &p.Tasks[i]
			for j := range t.Steps {
				if !yield(StepID{Task: t.ID, Step: t.Steps[j].ID}, &t.Steps[j]) {
					return
				}
			}
		}
	}
}

// Digest is the hex SHA-256 of the step as it is stored: what an idempotency key stands
// for, and what an approval is bound to.
func (s Step) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("session: a checked step must encode: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Order gives the indexes of the tasks so that each follows what it depends on, otherwise
// in the plan's own order. cycle names the tasks of a dependency cycle, first one
// repeated at the end, and is nil when there is none; an unknown dependency is ignored
// here.
func (p *Plan) Order() (order []int, cycle []string) {
	index := make(map[string]int, len(p.Tasks))
	for i, t := range p.Tasks {
		index[t.ID] = i
	}
	waits := make([]int, len(p.Tasks))
	dependents := make([][]int, len(p.Tasks))
	for i, t := range p.Tasks {
		for _, d := range t.DependsOn {
			if j, ok := index[d]; ok {
				waits[i]++
				dependents[j] = append(dependents[j], i)
			}
		}
	}
	// sorted
	var ready []int
	for i := range p.Tasks {
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		order, ready = append(order, i), ready[1:]
		for _, j := range dependents[i] {
			if waits[j]--; waits[j] == 0 {
				at, _ := slices.BinarySearch(ready, j)
				ready = slices.Insert(ready, at, j)
			}
		}
	}
	if len(order) < len(p.Tasks) {
		return nil, p.findCycle(index, waits)
	}
	return order, nil
}

// findCycle walks from a task that never became ready through dependencies that never
// became ready either, until one repeats.
func (p *Plan) findCycle(index map[string]int, waits []int) []string {
	at := 0
	for waits[at] == 0 {
		at++
	}
	seen := map[int]int{}
	var path []string
	for {
		if from, ok := seen[at]; ok {
			return append(path[from:], p.Tasks[at].ID)
		}
		seen[at] = len(path)
		path = append(path, p.Tasks[at].ID)
		for _, d := range p.Tasks[at].DependsOn {
			if j, ok := index[d]; ok && waits[j] > 0 {
				at = j
				break
			}
		}
	}
}

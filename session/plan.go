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

// Kind is the kind of work of a step.
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
	// KindPrompt is a conversation with a model.
	KindPrompt Kind = "prompt"
	// KindCalls is a step whose operations are the calls of an outside agent. No plan
	// file can have one.
	KindCalls Kind = "calls"
)

// OnFailure says how a failed step affects its session.
type OnFailure string

// The policies for a failed step.
const (
	// The session pauses; resume runs the step again.
	FailurePauses OnFailure = "pause"
	// The session fails.
	FailureFails OnFailure = "fail"
	// Other branches of the DAG continue, then the session pauses.
	FailureContinues OnFailure = "continue"
)

// MostParallel is the greatest valid value of MaxParallel.
const MostParallel = 64

// Plan is the work of a session: tasks in a DAG, each with steps in order. A Plan has
// been checked and never changes after the session has started.
type Plan struct {
	Version   int       `json:"version"`
	Task      string    `json:"task"`
	OnFailure OnFailure `json:"on_failure"`

	// MaxParallel is how many steps may run at once, at most MostParallel. In a session's
	// plan it is the number with which the session started. It is 0 in a plan without a
	// session; the configuration then decides.
	MaxParallel int `json:"max_parallel,omitempty"`

	Params []Param `json:"params,omitempty"`
	// Inputs names variables that commands read in a way that acode cannot detect.
	Inputs []string `json:"inputs,omitempty"`
	Tasks  []Task   `json:"tasks"`
	// Agent is set if the operations are the calls of an outside agent.
	Agent *Agent `json:"agent,omitempty"`
}

// Task is a node of the DAG.
type Task struct {
	ID        string   `json:"id"`
	Title     string   `json:"title,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	Steps     []Step   `json:"steps"`
}

// Step is one unit of work. Only the field for its Kind is set. Write, edit, delete, move
// and changes all use Changes.
type Step struct {
	ID      string   `json:"id"`
	Name    string   `json:"name,omitempty"`
	Kind    Kind     `json:"kind"`
	Read    *Read    `json:"read,omitempty"`
	Search  *Search  `json:"search,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Run     *Run     `json:"run,omitempty"`
	// Approve is the question.
	Approve string  `json:"approve,omitempty"`
	Prompt  *Prompt `json:"prompt,omitempty"`
}

// Read hashes the files that match a glob; ** crosses directories.
type Read struct {
	Path string `json:"path"`
}

// Search looks for an RE2 pattern in the files below Path.
type Search struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

// Change is one change of files. Op is KindWrite, KindEdit, KindDelete or KindMove.
// Content and Mode belong to write, Old, New and All to edit, From and To to move.
type Change struct {
	Op Kind `json:"op"`
	// Path is for write, edit and delete. It is slash-separated and relative to the
	// workspace.
	Path    string `json:"path,omitempty"`
	Content string `json:"content,omitempty"`
	// Mode holds permission bits. 0 keeps the mode of an existing file and means 0644 for
	// a new one.
	Mode uint32 `json:"mode,omitempty"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	// All replaces every match instead of requiring exactly one.
	All  bool   `json:"all,omitempty"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// OnInterrupt is the policy for a command whose outcome stays unknown.
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
	// Shell is a script for a shell.
	Shell string `json:"shell,omitempty"`
	// With is the program that takes Shell as its last argument. If it is empty, it is
	// /bin/sh -e -c.
	With []string `json:"with,omitempty"`
	// Argv is executed without a shell.
	Argv []string `json:"argv,omitempty"`
	// Dir is relative to the workspace; empty means the workspace.
	Dir string            `json:"dir,omitempty"`
	Env map[string]string `json:"env,omitempty"`
	// Timeout 0 means none.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	Capture string        `json:"capture,omitempty"`
	Check   string        `json:"check,omitempty"`
	// An empty OnInterrupt means ask.
	OnInterrupt OnInterrupt `json:"on_interrupt,omitempty"`
	// Volatile means durable: false: acode does not call syncfs after the command.
	Volatile bool `json:"volatile,omitempty"`
	// Exclusive means that no other step runs at the same time.
	Exclusive bool `json:"exclusive,omitempty"`
	// TTY runs the command on a pseudo-terminal. It excludes Capture.
	TTY bool `json:"tty,omitempty"`
	// Sandbox is set for the command of an agent. If it is empty, the configuration at the
	// start of the session decides.
	Sandbox Confinement `json:"sandbox,omitempty"`
}

// Command returns the argument vector that acode executes.
func (r Run) Command() []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	if len(r.With) > 0 {
		return append(slices.Clone(r.With), r.Shell)
	}
	return []string{"/bin/sh", "-e", "-c", r.Shell}
}

// Asking returns the check of r as a command. It runs without -e, so its last command
// decides.
func (r Run) Asking() *Run {
	return &Run{Argv: []string{"/bin/sh", "-c", r.Check}, Dir: r.Dir, Env: r.Env, Timeout: r.Timeout, Volatile: true, Sandbox: r.Sandbox}
}

// Foresee describes how an unknown outcome of r is decided. Its check comes first, then
// the answer that a person gave in advance (said; empty if none), then on_interrupt, then
// a person.
func (r Run) Foresee(said OnInterrupt) string {
	then := "a person must decide"
	switch {
	case said == InterruptAsks || said == "" && (r.OnInterrupt == "" || r.OnInterrupt == InterruptAsks):
	case said != "":
		then = "the given answer says " + string(said)
	default:
		then = "on_interrupt says " + string(r.OnInterrupt)
	}
	if r.Check != "" {
		then = "its check decides; if the check cannot, " + then
	}
	return then
}

// Label returns the text that people see: the name of the step, or else a description.
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
	case KindPrompt:
		return firstLine(s.Prompt.Text)
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

// Paths returns each path that the changes of s name, once.
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

// InWorkspace reports whether s itself works in the workspace. A gate does not, and of a
// prompt only its calls do.
func (s *Step) InWorkspace() bool { return s.Kind != KindApprove && s.Kind != KindPrompt }

// Captures returns the name of the value that s captures. It is empty if there is none.
func (s *Step) Captures() string {
	switch {
	case s.Run != nil:
		return s.Run.Capture
	case s.Prompt != nil:
		return s.Prompt.Capture
	}
	return ""
}

// WaitsFor says why s must not begin while other is in progress. It returns "" if s may
// begin.
func (s *Step) WaitsFor(other *Step) string {
	if !s.InWorkspace() || !other.InWorkspace() {
		return ""
	}
	if other.Run != nil && other.Run.Exclusive || s.Run != nil && s.Run.Exclusive {
		return "no other step runs beside an exclusive command"
	}
	paths := other.Paths()
	for _, path := range s.Paths() {
		if slices.Contains(paths, path) {
			return "both change " + path
		}
	}
	return ""
}

// Steps returns the number of steps in all tasks.
func (p *Plan) Steps() int {
	n := 0
	for i := range p.Tasks {
		n += len(p.Tasks[i].Steps)
	}
	return n
}

// All returns the steps of all tasks in written order. The steps belong to the plan and
// are not copies.
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

// Digest returns the hex SHA-256 of the step in its stored form. Idempotency keys and
// approvals are bound to it.
func (s Step) Digest() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("session: a checked step must encode: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Order returns the indexes of the tasks so that each follows its dependencies, and
// otherwise in the plan's own order. If there is a dependency cycle, Order returns the
// names of its tasks instead, with the first one again at the end. It ignores unknown
// dependencies.
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

// findCycle walks from a blocked task through blocked dependencies until a task repeats.
// A task is blocked if Order could not make it ready.
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

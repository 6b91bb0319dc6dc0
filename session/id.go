package session

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ID is a UUIDv7 in its canonical text form.
type ID string

// StepID names a step within its session, or an operation of the step. Its fields satisfy
// ValidName, so none contains a separator of a Key.
type StepID struct {
	Task string `json:"task" redact:"-"`
	Step string `json:"step" redact:"-"`
	// Op is empty for the step itself. A call of an outside agent is n1, n2 and so on. A
	// request to a model is m1, m2 and so on, and a call of turn 7 is c7.1, c7.2 and so on.
	Op string `json:"op,omitempty" redact:"-"`
}

// String returns "task/step", or "task/step/op" for an operation.
func (s StepID) String() string {
	if s.Op == "" {
		return s.Task + "/" + s.Step
	}
	return s.Task + "/" + s.Step + "/" + s.Op
}

// ParseStepID parses the output of StepID.String.
func ParseStepID(s string) (StepID, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.ContainsFunc(parts, func(p string) bool { return !ValidName(p) }) {
		return StepID{}, fmt.Errorf("%q is not TASK/STEP", s)
	}
	id := StepID{Task: parts[0], Step: parts[1]}
	if len(parts) == 3 {
		id.Op = parts[2]
	}
	return id, nil
}

// Of returns the step of an operation.
func (s StepID) Of() StepID { return StepID{Task: s.Task, Step: s.Step} }

// Event returns the type of an event about s: t for a step, and the type with the same
// payload for an operation.
func (s StepID) Event(t EventType) EventType {
	if s.Op == "" {
		return t
	}
	switch t {
	case StepStarted:
		return OperationStarted
	case StepCompleted:
		return OperationCompleted
	case StepFailedEvent:
		return OperationFailed
	case StepUnknown:
		return OperationUnknown
	}
	return t
}

// ValidName reports whether s is a valid id of a task or a step. A valid id has 1 to 64
// characters of A-Z, a-z, 0-9, dot, underscore and hyphen, and is not "." or "..".
func ValidName(s string) bool {
	return s != "" && len(s) <= 64 && s != "." && s != ".." && strings.Trim(s, letters+digits+"._-") == ""
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// OpMain is the operation of a step itself, and OpCheck that of its check.
const (
	OpMain  = "main"
	OpCheck = "check"
)

// Key is an idempotency key. It names one attempt of one operation of one step of one
// session (FR-029).
type Key struct {
	Session ID
	Step    StepID
	// Operation is Step.Op if that is set, and otherwise OpMain or OpCheck.
	Operation string
	// Attempt counts from 1. A crash does not start a new attempt.
	Attempt int
}

// String returns v1:<session>:<task>/<step>/<operation>:<attempt>.
func (k Key) String() string {
	return fmt.Sprintf("v1:%s:%s/%s:%d", k.Session, k.Step.Of(), k.Operation, k.Attempt)
}

// KeyOf returns the key of an attempt of a step or of an operation.
func KeyOf(id ID, step StepID, attempt int) Key {
	return Key{Session: id, Step: step, Operation: cmp.Or(step.Op, OpMain), Attempt: attempt}
}

// ParseKey parses the output of Key.String, in every version of the format.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 4 || parts[0] != "v1" {
		return Key{}, fmt.Errorf("parse idempotency key %q: not v1:<session>:<task>/<step>/<operation>:<attempt>", s)
	}
	path := strings.Split(parts[2], "/")
	attempt, err := strconv.Atoi(parts[3])
	if len(path) != 3 || err != nil || attempt < 1 || strconv.Itoa(attempt) != parts[3] {
		return Key{}, fmt.Errorf("parse idempotency key %q: bad step or attempt", s)
	}
	for _, name := range path {
		if !ValidName(name) {
			return Key{}, fmt.Errorf("parse idempotency key %q: bad name %q", s, name)
		}
	}
	k := Key{Session: ID(parts[1]), Step: StepID{Task: path[0], Step: path[1]}, Operation: path[2], Attempt: attempt}
	if k.Operation != OpMain && k.Operation != OpCheck {
		k.Step.Op = k.Operation
	}
	return k, nil
}

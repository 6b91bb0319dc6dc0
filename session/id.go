package session

import (
	"fmt"
	"strconv"
	"strings"
)

// ID is a UUIDv7 in its canonical text form.
type ID string

// StepID names a step within its session. Task and Step satisfy ValidName, so neither
// contains a separator of a Key.
type StepID struct {
	Task string `json:"task" redact:"-"`
	Step string `json:"step" redact:"-"`
}

// String returns "task/step".
func (s StepID) String() string { return s.Task + "/" + s.Step }

// ParseStepID parses the output of StepID.String.
func ParseStepID(s string) (StepID, error) {
	task, step, _ := strings.Cut(s, "/")
	if !ValidName(task) || !ValidName(step) {
		return StepID{}, fmt.Errorf("%q is not TASK/STEP", s)
	}
	return StepID{Task: task, Step: step}, nil
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

// OpMain is the only operation of a step that has one operation.
const OpMain = "main"

// Key is an idempotency key. It names one attempt of one operation of one step of one
// session (FR-029).
type Key struct {
	Session   ID
	Step      StepID
	Operation string
	// Attempt counts from 1. A crash does not start a new attempt.
	Attempt int
}

// String returns v1:<session>:<task>/<step>/<operation>:<attempt>.
func (k Key) String() string {
	return fmt.Sprintf("v1:%s:%s/%s:%d", k.Session, k.Step, k.Operation, k.Attempt)
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
	return Key{Session: ID(parts[1]), Step: StepID{Task: path[0], Step: path[1]}, Operation: path[2], Attempt: attempt}, nil
}

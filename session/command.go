package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// CommandRequest asks a supervisor to run a command under an idempotency key.
type CommandRequest struct {
	Key   string   `json:"key"`
	Epoch uint64   `json:"epoch"`
	Argv  []string `json:"argv"`
	// absolute; Dir is opened below it without leaving it
	Workspace string `json:"workspace"`
	Dir       string `json:"dir,omitempty"`
	// the whole environment, KEY=value, before ACODE_IDEMPOTENCY_KEY
	Env []string `json:"env"`
	// 0 means none
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// no syncfs before the exit record
	Volatile bool `json:"volatile,omitempty"`
	// its standard error is kept apart from its standard output
	Split bool `json:"split,omitempty"`
	// on a pseudo-terminal; excludes Split
	TTY bool `json:"tty,omitempty"`
}

// CommandState is what the record of a command says.
type CommandState string

// The states of a command's record.
const (
	// never started: no claim
	CommandUnclaimed CommandState = "unclaimed"
	// never started: its claim could not be made durable, so its key is spent
	CommandVoid CommandState = "void"
	// its supervisor lives, or its leader does
	CommandRunning CommandState = "running"
	// the exit record stands
	CommandFinished CommandState = "finished"
	// claimed, over, and no exit record
	CommandUnknown CommandState = "unknown"
	// unknown, and descendants still run
	CommandLingering CommandState = "lingering"
	// running, but its supervisor is gone: the outcome will be unknown
	CommandUnattended CommandState = "unattended"
)

// CommandRecord is the truth about one key, read from its claim file.
type CommandRecord struct {
	Key       string
	State     CommandState
	Epoch     uint64
	StartedUS int64
	// of the leader; 0 when it never started, or Elsewhere
	PID int
	// it runs, or ran, in another PID namespace than ours
	Elsewhere bool
	// when finished: 0 to 255, -1 for a signal or a failed start
	Exit int
	// "SIGKILL"
	Signal string
	// its timeout ended it
	TimedOut bool
	// a person ended it
	Cancelled bool
	// why it could not start; does not name the program, which may hold a secret
	StartError string
	// StartError is a limit, of processes for one, that was reached: the command need not
	// be at fault
	Starved bool
	EndedUS int64
	// of unknown: its last sign of life, the latest of its records and of what it wrote
	AliveUS int64
	// descendants that outlived it: "pid command line"
	Left []string
	// of unknown and void: a sentence
	Why string
	// what of its output could not be kept, and why; empty: nothing
	Lost string
	// a sentence about who is stopped, where that was looked at; empty: nobody
	Stopped string
}

// RecordLost is why the outcome of a command is unknown whose record is gone.
const RecordLost = "records of the session's commands are missing, and its own may be one of them"

// interruptions are the signals that end a command together with its surroundings: a
// shutdown, a closed terminal, the OOM killer.
var interruptions = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGKILL"}

// shellStatus is how a shell reports that one of these signals ended its last command.
var shellStatus = map[int]string{129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 137: "SIGKILL", 143: "SIGTERM"}

// Interruption describes how a finished command was ended by a signal that acode did not
// send, or is empty when it was not. Such a command may or may not have done its work:
// its outcome is unknown. A crash of its own (SEGV, ABRT, PIPE) is no interruption.
func (r CommandRecord) Interruption() string {
	switch {
	case r.TimedOut || r.Cancelled:
		return ""
	case slices.Contains(interruptions, r.Signal):
		return r.Signal
	case shellStatus[r.Exit] != "":
		return fmt.Sprintf("%s (status %d)", shellStatus[r.Exit], r.Exit)
	}
	return ""
}

// WasCancelled reports whether a person ended a command before it was done, and nothing
// of it runs on. One that ends with status 0 when it is asked to end has done its work.
func (r CommandRecord) WasCancelled() bool {
	return r.State == CommandFinished && r.Cancelled && r.Exit != 0 && len(r.Left) == 0
}

// MaxCaptureBytes bounds the value of a capture.
const MaxCaptureBytes = 64 << 10

// CaptureValue makes the value of the capture name of what a command wrote, or of what a
// person gave in its place: without surrounding space. It returns ErrCommand for what is
// too long or no text.
func CaptureValue(name, raw string) (string, error) {
	value := strings.TrimSpace(raw)
	what := ""
	switch {
	case len(value) > MaxCaptureBytes || len(raw) >= 2*MaxCaptureBytes:
		what = "is longer than 64 KiB"
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		what = "is no text"
	default:
		return value, nil
	}
	return "", &Error{Code: ErrCommand, Message: fmt.Sprintf("the output to be captured as %s %s", name, what)}
}

// RequestKind is what somebody asks of the process that executes a session.
type RequestKind string

// The kinds of requests.
const (
	RequestCancel  RequestKind = "cancel"
	RequestApprove RequestKind = "approve"
	RequestDeny    RequestKind = "deny"
)

// Request is what cancel, approve and deny leave in the store for the holder of the lock.
type Request struct {
	// row; 0 before it is stored
	ID      int64
	Session ID
	Kind    RequestKind
	// of approve and deny
	Step StepID
	// of what is answered
	Digest string
	// seq of the question that an approve answers; a later one with that digest is
	// another
	Asked  uint64
	Reason string
	// who asked; of cancel also when
	By string
}

// Summary is one line of a list of sessions.
type Summary struct {
	ID        ID
	Short     string
	State     State
	Reason    Reason
	Task      string
	Workspace string
	Tasks     int
	Steps     int
	Done      int
	Epoch     uint64
	LastSeq   uint64
	CreatedUS int64
	UpdatedUS int64
}

// Progress is how far a file step got, judged from the files alone.
type Progress string

// What Inspect can find.
const (
	// every path equals its pre-image, nothing is left over
	NotApplied Progress = "not_applied"
	// every path equals its post-image
	Applied Progress = "applied"
	// leftover temporary files, or some paths pre and some post
	Partial Progress = "partial"
	// some path is neither
	Foreign Progress = "foreign"
)

// Change kinds of ChangedFile.
const (
	FileModified = "modified"
	FileDeleted  = "deleted"
	FileCreated  = "created"
	// its size is the same, its times are not, and its content was never read
	FileUnsure = "may have changed"
)

// FileUse is what the session did or will do with a file.
type FileUse string

// The uses of ChangedFile. The empty one is a file that the session has nothing to do
// with.
const (
	FileRead  FileUse = "read"
	FileWrote FileUse = "wrote"
	// or to read: a step that is left names it
	FilePlanned FileUse = "plans to change"
	// a step in progress works on it
	FileInProgress FileUse = "in progress"
	FileBeside     FileUse = "changed while its command ran"
)

// ChangedFile is a difference between what the session knew and what lies there now.
type ChangedFile struct {
	Path string `json:"path"`
	// FileModified, FileDeleted, FileCreated, FileUnsure
	Kind    string `json:"kind"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtime_ns"`
	// 0 where it is unknown
	CTimeNS int64   `json:"-"`
	Session FileUse `json:"session,omitempty"`
	// significant (FR-045)
	Asks bool `json:"asks"`
}

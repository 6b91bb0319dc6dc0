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
	// Workspace is absolute. The supervisor opens Dir below it without leaving it.
	Workspace string `json:"workspace"`
	Dir       string `json:"dir,omitempty"`
	// Env is the whole environment as KEY=value, without ACODE_IDEMPOTENCY_KEY.
	Env []string `json:"env"`
	// Timeout 0 means none.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Volatile says that the supervisor does not call syncfs before it writes the exit
	// record.
	Volatile bool `json:"volatile,omitempty"`
	// Split keeps standard error apart from standard output.
	Split bool `json:"split,omitempty"`
	// TTY runs the command on a pseudo-terminal. It excludes Split.
	TTY bool `json:"tty,omitempty"`
	// Sandbox confines the command; nil does not.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Sandbox says what a confined command may do. Its paths are absolute.
type Sandbox struct {
	// Mode is the means of this system.
	Mode string `json:"mode"`
	// Workspace, Home and Tmp are the directories that the command may write below.
	Workspace string `json:"workspace"`
	Home      string `json:"home"`
	Tmp       string `json:"tmp"`
	// Read lists further directories and files that the command may read and execute.
	Read []string `json:"read"`
	// Network lets the command use the network of this machine.
	Network bool `json:"network,omitempty"`
	// ReadOnly lets the command write nowhere.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Confinement says whether a command runs in a sandbox.
type Confinement string

// The confinements of a command.
const (
	// Unconfined runs the command with the rights of acode itself.
	Unconfined Confinement = "off"
	// Confined runs the command in a sandbox without a network.
	Confined Confinement = "on"
	// ConfinedOnline runs the command in a sandbox with the network of this machine.
	ConfinedOnline Confinement = "network"
	// ConfinedReading runs the command in a sandbox where it writes nowhere and has no
	// network.
	ConfinedReading Confinement = "reading"
)

// Confinement returns the confinement of req.
func (req CommandRequest) Confinement() Confinement {
	switch {
	case req.Sandbox == nil:
		return Unconfined
	case req.Sandbox.ReadOnly:
		return ConfinedReading
	case req.Sandbox.Network:
		return ConfinedOnline
	}
	return Confined
}

// CommandState is the state of a command according to its record.
type CommandState string

// The states of a command's record.
const (
	// never started: there is no claim
	CommandUnclaimed CommandState = "unclaimed"
	// never started: the claim could not be made durable, so the key cannot be used again
	CommandVoid CommandState = "void"
	// the supervisor or the leader lives
	CommandRunning CommandState = "running"
	// the exit record exists
	CommandFinished CommandState = "finished"
	// claimed and over, without an exit record
	CommandUnknown CommandState = "unknown"
	// like unknown, but descendants still run
	CommandLingering CommandState = "lingering"
	// like running, but the supervisor is gone, so the outcome will be unknown
	CommandUnattended CommandState = "unattended"
)

// CommandRecord describes the command of one key, as read from its claim file.
type CommandRecord struct {
	Key       string
	State     CommandState
	Epoch     uint64
	StartedUS int64
	// PID is that of the leader. It is 0 if the leader never started, or if Elsewhere is
	// set.
	PID int
	// Elsewhere says that the command runs or ran in another PID namespace.
	Elsewhere bool
	// Exit is set for a finished command: 0 to 255, or -1 after a signal or a failed
	// start.
	Exit int
	// Signal is a name such as "SIGKILL".
	Signal string
	// TimedOut says that the timeout ended the command.
	TimedOut bool
	// Cancelled says that a person ended the command.
	Cancelled bool
	// StartError says why the command could not start. It does not contain the name of
	// the program, which may hold a secret.
	StartError string
	// Starved says that StartError is a limit of the system, such as one on processes.
	// The command may be correct.
	Starved bool
	EndedUS int64
	// AliveUS is set if the outcome is unknown. It is the time of the latest sign of
	// life: a record or output.
	AliveUS int64
	// Left lists descendants that outlived the command, as "pid command line".
	Left []string
	// Why is one sentence for the states unknown and void.
	Why string
	// Lost says which output could not be kept, and why. It is empty if all was kept.
	Lost string
	// Stopped is a sentence about stopped processes. It is empty if there are none or no
	// one looked.
	Stopped string
}

// RecordLost says why the outcome of a command is unknown if its record may be lost.
const RecordLost = "records of the session's commands are missing, and the record of this command may be one of them"

// interruptions are the signals that also hit other processes around a command: a
// shutdown, a closed terminal, the OOM killer.
var interruptions = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGKILL"}

// shellStatus maps the status of a shell to the signal that ended its last command.
var shellStatus = map[int]string{129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 137: "SIGKILL", 143: "SIGTERM"}

// Interruption returns the signal that ended a finished command, if acode did not send
// it, and "" otherwise. The outcome of such a command is unknown, because its work may or
// may not be done. A crash of its own (SEGV, ABRT, PIPE) is no interruption.
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

// WasCancelled reports whether a person ended a command before it was done, and no part
// of it still runs. A command that ends with status 0 after the request to end has done
// its work.
func (r CommandRecord) WasCancelled() bool {
	return r.State == CommandFinished && r.Cancelled && r.Exit != 0 && len(r.Left) == 0
}

// MaxCaptureBytes is the greatest length of the value of a capture.
const MaxCaptureBytes = 64 << 10

// CaptureValue returns the value of the capture name. raw is the output of the command,
// or the text that a person gave instead; surrounding space is removed. It returns
// ErrCommand if the value is too long or is not text.
func CaptureValue(name, raw string) (string, error) {
	value := strings.TrimSpace(raw)
	what := ""
	switch {
	case len(value) > MaxCaptureBytes || len(raw) >= 2*MaxCaptureBytes:
		what = "is longer than 64 KiB"
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		what = "is not text"
	default:
		return value, nil
	}
	return "", &Error{Code: ErrCommand, Message: fmt.Sprintf("the output to be captured as %s %s", name, what)}
}

// RequestKind is a request to the process that executes a session.
type RequestKind string

// The kinds of requests.
const (
	RequestCancel  RequestKind = "cancel"
	RequestApprove RequestKind = "approve"
	RequestDeny    RequestKind = "deny"
)

// Request is left in the store by cancel, approve and deny. The process that holds the
// lock handles it.
type Request struct {
	// ID is the number of its row, or 0 before it is stored.
	ID      int64
	Session ID
	Kind    RequestKind
	// Step is set for approve and deny.
	Step StepID
	// Digest is that of the answered question.
	Digest string
	// Asked is the seq of the question that an approve answers. A later question with the
	// same digest is a different one.
	Asked  uint64
	Reason string
	// Scope is set for an approve that is to hold for more than one call.
	Scope Scope
	// By names the person who asked. For a cancel it also contains the time.
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
	// Calls is above 0 for the session of an outside agent.
	Calls     int
	Epoch     uint64
	LastSeq   uint64
	CreatedUS int64
	UpdatedUS int64
}

// Progress says how far a file step got. It depends only on the files.
type Progress string

// The results of Inspect.
const (
	// every path equals its pre-image, and no temporary file is left
	NotApplied Progress = "not_applied"
	// every path equals its post-image
	Applied Progress = "applied"
	// temporary files are left, or only some paths equal their post-image
	Partial Progress = "partial"
	// some path equals neither its pre-image nor its post-image
	Foreign Progress = "foreign"
)

// The kinds of ChangedFile.
const (
	FileModified = "modified"
	FileDeleted  = "deleted"
	FileCreated  = "created"
	// the size is the same, the times differ, and the content was never read
	FileUnsure = "may have changed"
)

// FileUse is the use that the session makes of a file.
type FileUse string

// The uses of ChangedFile. The empty use means that the session does not use the file.
const (
	FileRead  FileUse = "read"
	FileWrote FileUse = "wrote"
	// a remaining step names the file, to change or to read it
	FilePlanned FileUse = "plans to change"
	// a step in progress works on the file
	FileInProgress FileUse = "in progress"
	FileBeside     FileUse = "changed while its command ran"
)

// ChangedFile is a difference between the recorded and the present state of a file.
type ChangedFile struct {
	Path string `json:"path"`
	// Kind is FileModified, FileDeleted, FileCreated or FileUnsure.
	Kind    string `json:"kind"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
	Size    int64  `json:"size"`
	MTimeNS int64  `json:"mtime_ns"`
	// CTimeNS is 0 if it is unknown.
	CTimeNS int64   `json:"-"`
	Session FileUse `json:"session,omitempty"`
	// Asks says that the difference is significant (FR-045).
	Asks bool `json:"asks"`
}

// Difference is a changed file, with lines that describe the change.
type Difference struct {
	ChangedFile
	// Lines have secrets masked.
	Lines []string
}

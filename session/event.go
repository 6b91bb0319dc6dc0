package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// EventType names a fact; past tense.
type EventType string

// The types of events. Each has a payload type of the same name with the suffix Data.
const (
	SessionCreated EventType = "SessionCreated"
	StateChanged   EventType = "StateChanged"
	// epoch + 1; the fence of who executes
	ExecutionAcquired EventType = "ExecutionAcquired"
	// a person or policy went on with changed files
	ChangesAccepted EventType = "ChangesAccepted"
	// a person took the present environment for the inputs
	InputsChanged EventType = "InputsChanged"
	// the intent of an attempt
	StepStarted EventType = "StepStarted"
	// its receipt
	StepCompleted EventType = "StepCompleted"
	// its receipt, when it went wrong
	StepFailedEvent EventType = "StepFailed"
	// it cannot be known whether it happened
	StepUnknown       EventType = "StepUnknown"
	ApprovalRequested EventType = "ApprovalRequested"
	ApprovalGranted   EventType = "ApprovalGranted"
	ApprovalDenied    EventType = "ApprovalDenied"
	// an extra one; a receipt brings its own
	CheckpointCreated EventType = "CheckpointCreated"
)

// EventTypes lists every type, for schemas and exhaustive tests.
var EventTypes = []EventType{
	SessionCreated, StateChanged, ExecutionAcquired, ChangesAccepted, InputsChanged, StepStarted, StepCompleted,
	StepFailedEvent, StepUnknown, ApprovalRequested, ApprovalGranted, ApprovalDenied, CheckpointCreated,
}

// Receipt reports whether events of this type end an attempt and carry a checkpoint
// (FR-014).
func (t EventType) Receipt() bool { return t == StepCompleted || t == StepFailedEvent }

// Hash is a SHA-256.
type Hash [32]byte

// String gives lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Event is one immutable fact of a session. Payload is redacted JSON of at most
// MaxPayloadBytes; larger content is a blob that it names. What has the tag redact:"-" in
// a payload type is kept as it is: a name by which something is found again, or a word of
// acode's own.
type Event struct {
	// UUIDv7
	ID      [16]byte
	Session ID
	// contiguous from 1
	Seq uint64
	// hybrid clock, strictly increasing in a store
	TimeUS int64
	Type   EventType
	// who: "user", "acode", "policy"
	Actor string
	// of the executing process; of the last one for events that nobody executing wrote
	Epoch   uint64
	Payload []byte
	// covers all of the above and the hash of the event before
	Hash Hash
	// the payload when Payload only names a blob; not chained
	Full []byte
}

// MaxPayloadBytes bounds a payload in the journal.
const MaxPayloadBytes = 16 << 10

// Time gives the event's time in UTC.
func (e Event) Time() time.Time { return time.UnixMicro(e.TimeUS).UTC() }

// Content gives the payload of e.Type: Full where Payload only names it.
func (e Event) Content() []byte {
	if e.Full != nil {
		return e.Full
	}
	return e.Payload
}

// Decode reads the payload into data, the payload type of e.Type.
func (e Event) Decode(data any) error {
	if err := json.Unmarshal(e.Content(), data); err != nil {
		return &Error{Code: ErrCorrupt, Message: fmt.Sprintf("the payload of %s is unreadable", e.Type), Place: fmt.Sprintf("seq %d", e.Seq), Cause: err}
	}
	return nil
}

// chainDomain separates this hash from every other use of SHA-256; its number is the
// format's.
const chainDomain = "acode-event-v1\x00"

// ChainHash computes what e.Hash must be after an event whose hash was prev (I6). The
// layout is written down in docs/format.md; the first event of a session follows the zero
// hash.
func (e Event) ChainHash(prev Hash) Hash {
	// enough for most: a backlog has a million, which would all be garbage
	var few [2048]byte
	b := append(few[:0], chainDomain...)
	b = append(b, prev[:]...)
	b = append(b, e.ID[:]...)
	b = appendText(b, string(e.Session))
	b = binary.BigEndian.AppendUint64(b, e.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(e.TimeUS))
	b = binary.BigEndian.AppendUint64(b, e.Epoch)
	b = appendText(b, string(e.Type))
	b = appendText(b, e.Actor)
	b = appendText(b, string(e.Payload))
	return sha256.Sum256(b)
}

// appendText appends the length of s in 4 bytes, big-endian, then s.
func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// Draft is an event before the journal has given it id, seq, time, epoch and hash.
type Draft struct {
	Type EventType
	// empty means "acode"
	Actor string
	// the payload type of Type
	Data any
}

// SessionCreatedData opens a session.
type SessionCreatedData struct {
	V     int    `json:"v"`
	Short string `json:"short_id" redact:"-"`
	Task  string `json:"task"`
	// absolute
	Workspace string `json:"workspace" redact:"-"`
	// JSON of a Plan
	Plan BlobRef `json:"plan"`
	// JSON of Inputs; zero: none were recorded
	Inputs BlobRef `json:"inputs,omitzero"`
	// fingerprints of the secrets that were known; zero: of none
	Learnt BlobRef `json:"learnt,omitzero"`
	// absolute: where the plan was read from; empty: from no file
	PlanFile string `json:"plan_file,omitempty" redact:"-"`
	// SHA-256 of that file in hex
	PlanSum   string    `json:"plan_sum,omitempty" redact:"-"`
	Tasks     int       `json:"tasks"`
	Steps     int       `json:"steps"`
	OnFailure OnFailure `json:"on_failure" redact:"-"`
	// JSON of the configuration that started it
	Config string `json:"config,omitempty" redact:"-"`
	// version of acode
	Program string `json:"program" redact:"-"`

	// nil: the session began here
	ForkedFrom *ForkPoint `json:"forked_from,omitempty"`
}

// ForkPoint is where a session left the history of another one, which the server has.
type ForkPoint struct {
	Session ID `json:"session" redact:"-"`
	// of the last event that both have; 0: they share none
	Seq uint64 `json:"seq"`
	// of that event, in hex
	Hash string `json:"hash,omitempty" redact:"-"`
}

// BlobRef names content that is kept outside the journal: its SHA-256 in hex and its
// length before compression and sealing. The zero value names nothing.
type BlobRef struct {
	Hash  string `json:"hash,omitempty" redact:"-"`
	Bytes int64  `json:"bytes,omitempty"`
	// encrypted: never shown, logged or sent
	Sealed bool `json:"sealed,omitempty"`
}

// StateChangedData moves a session from one state to another.
type StateChangedData struct {
	From   State  `json:"from" redact:"-"`
	To     State  `json:"to" redact:"-"`
	Reason Reason `json:"reason,omitempty" redact:"-"`
	Detail string `json:"detail,omitempty"`
	// of a failure that is the reason
	Code Code `json:"code,omitempty" redact:"-"`
	// number of the signal that is the reason
	Signal int `json:"signal,omitempty"`

	// of a pause or a question: the tracked files as they were left
	Manifest string `json:"manifest,omitempty" redact:"-"`
	// likewise
	Git string `json:"git,omitempty" redact:"-"`
}

// ExecutionAcquiredData begins an epoch; the number is the event's own Epoch.
type ExecutionAcquiredData struct {
	// random id of the store
	Device string `json:"device" redact:"-"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	// may have moved
	Workspace string `json:"workspace" redact:"-"`
	// blob hash of the tracked files' manifest
	Manifest string `json:"manifest,omitempty" redact:"-"`
	// JSON of the git state, opaque here
	Git string `json:"git,omitempty" redact:"-"`
	// JSON of the configuration now
	Config string `json:"config,omitempty" redact:"-"`

	// fingerprints of all secrets that are known; zero: as before
	Learnt BlobRef `json:"learnt,omitzero"`
}

// ChangesAcceptedData takes changed files as the new truth.
type ChangesAcceptedData struct {
	// "person", "policy", "flag"
	By    string      `json:"by"`
	Files []FileState `json:"files"`
}

// InputsChangedData puts the present environment in the place of the inputs.
type InputsChangedData struct {
	// JSON of Inputs
	Inputs BlobRef `json:"inputs"`
	// variables whose recorded values changed, the first of many
	Names []string `json:"names,omitempty" redact:"-"`
}

// StepStartedData is the intent of one attempt.
type StepStartedData struct {
	StepID
	Kind    Kind   `json:"kind" redact:"-"`
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	// of what will be done, captures filled in
	Digest string `json:"digest" redact:"-"`
	// of a file step
	Files []Transition `json:"files,omitempty"`
	// who ordered a further attempt: "check", "policy", "person", "resume"
	By string `json:"by,omitempty"`
	// seq of the StepUnknown of the attempt before; 0: that one has a receipt
	After uint64 `json:"after,omitempty"`
}

// StepCompletedData is the receipt of an attempt that worked.
type StepCompletedData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	// empty: it was carried out; "applied", "check", "policy", "person": found or
	// declared done
	By    string      `json:"by,omitempty"`
	Files []FileState `json:"files,omitempty"`
	// of a command that was over before this: when
	EndedUS int64 `json:"ended_us,omitempty"`
	// of a search
	Matches *Output        `json:"matches,omitempty"`
	Command *CommandResult `json:"command,omitempty"`
	Capture *Capture       `json:"capture,omitempty"`

	// of a command: the tracked files as it left them; empty: as they were
	Manifest string `json:"manifest,omitempty" redact:"-"`

	// of a sealed capture: as in ExecutionAcquiredData; no part of the result
	Learnt BlobRef `json:"learnt,omitzero"`
}

// StepFailedData is the receipt of an attempt that went wrong.
type StepFailedData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	By      string `json:"by,omitempty"`
	Code    Code   `json:"code" redact:"-"`
	Message string `json:"message"`
	// of a command that was over before this: when
	EndedUS int64          `json:"ended_us,omitempty"`
	Files   []FileState    `json:"files,omitempty"`
	Command *CommandResult `json:"command,omitempty"`

	// as in StepCompletedData
	Manifest string `json:"manifest,omitempty" redact:"-"`
}

// StepUnknownData records that an attempt's outcome is unknown: of one in progress, or of
// one that failed because acode ended its command.
type StepUnknownData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	Why     string `json:"why"`

	// what it had written by then; nil: nothing is left of it
	Command *CommandResult `json:"command,omitempty"`

	// as in StepCompletedData
	Manifest string `json:"manifest,omitempty" redact:"-"`
}

// ApprovalRequestedData asks a person; Digest binds the answer to what is asked.
type ApprovalRequestedData struct {
	StepID
	Question string `json:"question"`
	Digest   string `json:"digest" redact:"-"`
}

// ApprovalGrantedData is a single-use yes.
type ApprovalGrantedData struct {
	StepID
	Digest string `json:"digest" redact:"-"`
	By     string `json:"by"`
	// the one epoch that may use it
	For uint64 `json:"for_epoch"`
}

// ApprovalDeniedData is a no.
type ApprovalDeniedData struct {
	StepID
	Digest string `json:"digest" redact:"-"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// CheckpointCreatedData asks for a checkpoint that no receipt brings.
type CheckpointCreatedData struct {
	Why string `json:"why"`
}

// Image is what a path holds at one moment.
type Image struct {
	// "absent", "file"
	Kind string `json:"kind" redact:"-"`
	// SHA-256 in hex
	Hash string `json:"hash,omitempty" redact:"-"`
	Size int64  `json:"size,omitempty"`
	// permission bits
	Mode uint32 `json:"mode,omitempty"`
}

// Absent reports whether the path holds nothing.
func (i Image) Absent() bool { return i.Kind == "absent" }

// Transition is what a file step does to one path, whatever kind of change it came from.
type Transition struct {
	Path string `json:"path" redact:"-"`
	Pre  Image  `json:"pre"`
	Post Image  `json:"post"`
	// Post is the file that lies at From now, by rename
	From string `json:"from,omitempty" redact:"-"`
	// name of the blob that keeps the pre-image's content
	Kept string `json:"kept,omitempty" redact:"-"`
	// likewise the post-image's, where it is at most 64 KiB and not in the plan
	Made string `json:"made,omitempty" redact:"-"`
}

// FileState is a file as the session last knew it.
type FileState struct {
	Path string `json:"path" redact:"-"`
	// empty: the file is absent
	Hash    string `json:"hash,omitempty" redact:"-"`
	Size    int64  `json:"size,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	MTimeNS int64  `json:"mtime_ns,omitempty"`
	CTimeNS int64  `json:"ctime_ns,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	// touched within the clock's granularity: hash, do not trust the stat
	Racy bool `json:"racy,omitempty"`
	// the session wrote it; else it read it
	Wrote bool `json:"wrote,omitempty"`
}

// Output is text that a step produced, redacted. Blob holds it when it is too long for
// Text.
type Output struct {
	Text string  `json:"text,omitempty"`
	Blob BlobRef `json:"blob,omitzero"`
	// as produced, before any cut
	Bytes int64 `json:"bytes"`
	// the middle is missing
	Cut bool `json:"cut,omitempty"`
	// of a command whose output was cut or is no text: all that was kept of it; it is
	// delivered with sync.output: full only
	Whole BlobRef `json:"whole,omitzero"`
}

// CommandResult is how a command ended.
type CommandResult struct {
	// 0 to 255; -1 when a signal ended it or it never started
	Exit int `json:"exit"`
	// "SIGKILL"
	Signal   string `json:"signal,omitempty" redact:"-"`
	TimedOut bool   `json:"timed_out,omitempty"`
	// a person ended it
	Cancelled  bool   `json:"cancelled,omitempty"`
	StartError string `json:"start_error,omitempty"`
	DurationUS int64  `json:"duration_us"`
	// both streams in their order, unless the step has a capture
	Stdout Output `json:"stdout"`
	Stderr Output `json:"stderr"`
	// descendants that were still running
	Left []string `json:"left,omitempty"`
}

// Capture is a value that later steps use.
type Capture struct {
	Name string `json:"name" redact:"-"`
	// when redaction leaves it as it is
	Value string `json:"value,omitempty"`
	// otherwise, sealed
	Blob BlobRef `json:"blob,omitzero"`
}

// ParseUUID reads the 16 bytes of a UUID in canonical text form.
func ParseUUID(s string) (u [16]byte, err error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) != 16 || len(s) != 36 {
		return u, fmt.Errorf("parse UUID %q", s)
	}
	return [16]byte(raw), nil
}

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
	SessionCreated    EventType = "SessionCreated"
	StateChanged      EventType = "StateChanged"
	ExecutionAcquired EventType = "ExecutionAcquired" // epoch + 1; the fence of who executes
	ChangesAccepted   EventType = "ChangesAccepted"   // a person or policy went on with changed files
	InputsChanged     EventType = "InputsChanged"     // a person took the present environment for the inputs
	StepStarted       EventType = "StepStarted"       // the intent of an attempt
	StepCompleted     EventType = "StepCompleted"     // its receipt
	StepFailedEvent   EventType = "StepFailed"        // its receipt, when it went wrong
	StepUnknown       EventType = "StepUnknown"       // it cannot be known whether it happened
	ApprovalRequested EventType = "ApprovalRequested"
	ApprovalGranted   EventType = "ApprovalGranted"
	ApprovalDenied    EventType = "ApprovalDenied"
	CheckpointCreated EventType = "CheckpointCreated" // an extra one; a receipt brings its own
)

// EventTypes lists every type, for schemas and exhaustive tests.
var EventTypes = []EventType{
	SessionCreated, StateChanged, ExecutionAcquired, ChangesAccepted, InputsChanged, StepStarted, StepCompleted,
	StepFailedEvent, StepUnknown, ApprovalRequested, ApprovalGranted, ApprovalDenied, CheckpointCreated,
}

// Receipt reports whether events of this type end an attempt and carry a checkpoint (FR-014).
func (t EventType) Receipt() bool { return t == StepCompleted || t == StepFailedEvent }

// Hash is a SHA-256.
type Hash [32]byte

// String gives lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Event is one immutable fact of a session. Payload is redacted JSON of at most
// MaxPayloadBytes; larger content is a blob that it names. What has the tag redact:"-" in a payload
// type is kept as it is: a name by which something is found again, or a word of acode's own.
type Event struct {
	ID      [16]byte // UUIDv7
	Session ID
	Seq     uint64 // contiguous from 1
	TimeUS  int64  // hybrid clock, strictly increasing in a store
	Type    EventType
	Actor   string // who: "user", "acode", "policy"
	Epoch   uint64 // of the executing process; of the last one for events that nobody executing wrote
	Payload []byte
	Hash    Hash   // covers all of the above and the hash of the event before
	Full    []byte // the payload when Payload only names a blob; not chained
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

// chainDomain separates this hash from every other use of SHA-256; its number is the format's.
const chainDomain = "acode-event-v1\x00"

// ChainHash computes what e.Hash must be after an event whose hash was prev (I6). The layout
// is written down in docs/format.md; the first event of a session follows the zero hash.
func (e Event) ChainHash(prev Hash) Hash {
	var few [2048]byte // enough for most: a backlog has a million, which would all be garbage
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
	Type  EventType
	Actor string // empty means "acode"
	Data  any    // the payload type of Type
}

// SessionCreatedData opens a session.
type SessionCreatedData struct {
	V         int       `json:"v"`
	Short     string    `json:"short_id" redact:"-"`
	Task      string    `json:"task"`
	Workspace string    `json:"workspace" redact:"-"`           // absolute
	Plan      BlobRef   `json:"plan"`                           // JSON of a Plan
	Inputs    BlobRef   `json:"inputs,omitzero"`                // JSON of Inputs; zero: none were recorded
	Learnt    BlobRef   `json:"learnt,omitzero"`                // fingerprints of the secrets that were known; zero: of none
	PlanFile  string    `json:"plan_file,omitempty" redact:"-"` // absolute: where the plan was read from; empty: from no file
	PlanSum   string    `json:"plan_sum,omitempty" redact:"-"`  // SHA-256 of that file in hex
	Tasks     int       `json:"tasks"`
	Steps     int       `json:"steps"`
	OnFailure OnFailure `json:"on_failure" redact:"-"`
	Config    string    `json:"config,omitempty" redact:"-"` // JSON of the configuration that started it
	Program   string    `json:"program" redact:"-"`          // version of acode

	ForkedFrom *ForkPoint `json:"forked_from,omitempty"` // nil: the session began here
}

// ForkPoint is where a session left the history of another one, which the server has.
type ForkPoint struct {
	Session ID     `json:"session" redact:"-"`
	Seq     uint64 `json:"seq"`                       // of the last event that both have; 0: they share none
	Hash    string `json:"hash,omitempty" redact:"-"` // of that event, in hex
}

// BlobRef names content that is kept outside the journal: its SHA-256 in hex and its length
// before compression and sealing. The zero value names nothing.
type BlobRef struct {
	Hash   string `json:"hash,omitempty" redact:"-"`
	Bytes  int64  `json:"bytes,omitempty"`
	Sealed bool   `json:"sealed,omitempty"` // encrypted: never shown, logged or sent
}

// StateChangedData moves a session from one state to another.
type StateChangedData struct {
	From   State  `json:"from" redact:"-"`
	To     State  `json:"to" redact:"-"`
	Reason Reason `json:"reason,omitempty" redact:"-"`
	Detail string `json:"detail,omitempty"`
	Code   Code   `json:"code,omitempty" redact:"-"` // of a failure that is the reason
	Signal int    `json:"signal,omitempty"`          // number of the signal that is the reason

	Manifest string `json:"manifest,omitempty" redact:"-"` // of a pause or a question: the tracked files as they were left
	Git      string `json:"git,omitempty" redact:"-"`      // likewise
}

// ExecutionAcquiredData begins an epoch; the number is the event's own Epoch.
type ExecutionAcquiredData struct {
	Device    string `json:"device" redact:"-"` // random id of the store
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Workspace string `json:"workspace" redact:"-"`          // may have moved
	Manifest  string `json:"manifest,omitempty" redact:"-"` // blob hash of the tracked files' manifest
	Git       string `json:"git,omitempty" redact:"-"`      // JSON of the git state, opaque here
	Config    string `json:"config,omitempty" redact:"-"`   // JSON of the configuration now

	Learnt BlobRef `json:"learnt,omitzero"` // fingerprints of all secrets that are known; zero: as before
}

// ChangesAcceptedData takes changed files as the new truth.
type ChangesAcceptedData struct {
	By    string      `json:"by"` // "person", "policy", "flag"
	Files []FileState `json:"files"`
}

// InputsChangedData puts the present environment in the place of the inputs.
type InputsChangedData struct {
	Inputs BlobRef  `json:"inputs"`                     // JSON of Inputs
	Names  []string `json:"names,omitempty" redact:"-"` // variables whose recorded values changed, the first of many
}

// StepStartedData is the intent of one attempt.
type StepStartedData struct {
	StepID
	Kind    Kind         `json:"kind" redact:"-"`
	Key     string       `json:"key" redact:"-"`
	Attempt int          `json:"attempt"`
	Digest  string       `json:"digest" redact:"-"` // of what will be done, captures filled in
	Files   []Transition `json:"files,omitempty"`   // of a file step
	By      string       `json:"by,omitempty"`      // who ordered a further attempt: "check", "policy", "person", "resume"
	After   uint64       `json:"after,omitempty"`   // seq of the StepUnknown of the attempt before; 0: that one has a receipt
}

// StepCompletedData is the receipt of an attempt that worked.
type StepCompletedData struct {
	StepID
	Key     string         `json:"key" redact:"-"`
	Attempt int            `json:"attempt"`
	By      string         `json:"by,omitempty"` // empty: it was carried out; "applied", "check", "policy", "person": found or declared done
	Files   []FileState    `json:"files,omitempty"`
	EndedUS int64          `json:"ended_us,omitempty"` // of a command that was over before this: when
	Matches *Output        `json:"matches,omitempty"`  // of a search
	Command *CommandResult `json:"command,omitempty"`
	Capture *Capture       `json:"capture,omitempty"`

	Manifest string `json:"manifest,omitempty" redact:"-"` // of a command: the tracked files as it left them; empty: as they were

	Learnt BlobRef `json:"learnt,omitzero"` // of a sealed capture: as in ExecutionAcquiredData; no part of the result
}

// StepFailedData is the receipt of an attempt that went wrong.
type StepFailedData struct {
	StepID
	Key     string         `json:"key" redact:"-"`
	Attempt int            `json:"attempt"`
	By      string         `json:"by,omitempty"`
	Code    Code           `json:"code" redact:"-"`
	Message string         `json:"message"`
	EndedUS int64          `json:"ended_us,omitempty"` // of a command that was over before this: when
	Files   []FileState    `json:"files,omitempty"`
	Command *CommandResult `json:"command,omitempty"`

	Manifest string `json:"manifest,omitempty" redact:"-"` // as in StepCompletedData
}

// StepUnknownData records that an attempt's outcome is unknown: of one in progress, or of one that
// failed because acode ended its command.
type StepUnknownData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	Why     string `json:"why"`

	Command *CommandResult `json:"command,omitempty"` // what it had written by then; nil: nothing is left of it

	Manifest string `json:"manifest,omitempty" redact:"-"` // as in StepCompletedData
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
	For    uint64 `json:"for_epoch"` // the one epoch that may use it
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
	Kind string `json:"kind" redact:"-"`           // "absent", "file"
	Hash string `json:"hash,omitempty" redact:"-"` // SHA-256 in hex
	Size int64  `json:"size,omitempty"`
	Mode uint32 `json:"mode,omitempty"` // permission bits
}

// Absent reports whether the path holds nothing.
func (i Image) Absent() bool { return i.Kind == "absent" }

// Transition is what a file step does to one path, whatever kind of change it came from.
type Transition struct {
	Path string `json:"path" redact:"-"`
	Pre  Image  `json:"pre"`
	Post Image  `json:"post"`
	From string `json:"from,omitempty" redact:"-"` // Post is the file that lies at From now, by rename
	Kept string `json:"kept,omitempty" redact:"-"` // name of the blob that keeps the pre-image's content
	Made string `json:"made,omitempty" redact:"-"` // likewise the post-image's, where it is at most 64 KiB and not in the plan
}

// FileState is a file as the session last knew it.
type FileState struct {
	Path    string `json:"path" redact:"-"`
	Hash    string `json:"hash,omitempty" redact:"-"` // empty: the file is absent
	Size    int64  `json:"size,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	MTimeNS int64  `json:"mtime_ns,omitempty"`
	CTimeNS int64  `json:"ctime_ns,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	Racy    bool   `json:"racy,omitempty"`  // touched within the clock's granularity: hash, do not trust the stat
	Wrote   bool   `json:"wrote,omitempty"` // the session wrote it; else it read it
}

// Output is text that a step produced, redacted. Blob holds it when it is too long for Text.
type Output struct {
	Text  string  `json:"text,omitempty"`
	Blob  BlobRef `json:"blob,omitzero"`
	Bytes int64   `json:"bytes"`          // as produced, before any cut
	Cut   bool    `json:"cut,omitempty"`  // the middle is missing
	Whole BlobRef `json:"whole,omitzero"` // of a command whose output was cut: all that was kept of it; it stays on this machine
}

// CommandResult is how a command ended.
type CommandResult struct {
	Exit       int      `json:"exit"`                        // 0 to 255; -1 when a signal ended it or it never started
	Signal     string   `json:"signal,omitempty" redact:"-"` // "SIGKILL"
	TimedOut   bool     `json:"timed_out,omitempty"`
	Cancelled  bool     `json:"cancelled,omitempty"` // a person ended it
	StartError string   `json:"start_error,omitempty"`
	DurationUS int64    `json:"duration_us"`
	Stdout     Output   `json:"stdout"` // both streams in their order, unless the step has a capture
	Stderr     Output   `json:"stderr"`
	Left       []string `json:"left,omitempty"` // descendants that were still running
}

// Capture is a value that later steps use.
type Capture struct {
	Name  string  `json:"name" redact:"-"`
	Value string  `json:"value,omitempty"` // when redaction leaves it as it is
	Blob  BlobRef `json:"blob,omitzero"`   // otherwise, sealed
}

// ParseUUID reads the 16 bytes of a UUID in canonical text form.
func ParseUUID(s string) (u [16]byte, err error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) != 16 || len(s) != 36 {
		return u, fmt.Errorf("parse UUID %q", s)
	}
	return [16]byte(raw), nil
}

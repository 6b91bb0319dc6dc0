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

// EventType is the name of a fact, in the past tense.
type EventType string

// The types of events. The payload type of an event has the same name with the suffix
// Data.
const (
	SessionCreated EventType = "SessionCreated"
	StateChanged   EventType = "StateChanged"
	// ExecutionAcquired begins the next epoch, which fences off every earlier process.
	ExecutionAcquired EventType = "ExecutionAcquired"
	// ChangesAccepted records that a person or a policy continued with changed files.
	ChangesAccepted EventType = "ChangesAccepted"
	// InputsChanged records that a person replaced the inputs by the present environment.
	InputsChanged EventType = "InputsChanged"
	// PowersGranted records that a person gave an agent more than the least powers.
	PowersGranted EventType = "PowersGranted"
	// StepStarted is the intent of an attempt.
	StepStarted EventType = "StepStarted"
	// StepCompleted is the receipt of an attempt that succeeded.
	StepCompleted EventType = "StepCompleted"
	// StepFailedEvent is the receipt of an attempt that failed.
	StepFailedEvent EventType = "StepFailed"
	// StepUnknown records that the outcome of an attempt is unknown.
	StepUnknown EventType = "StepUnknown"
	// The events of an operation have the payloads of the step's events.
	OperationStarted   EventType = "OperationStarted"
	OperationCompleted EventType = "OperationCompleted"
	OperationFailed    EventType = "OperationFailed"
	OperationUnknown   EventType = "OperationUnknown"
	// OperationsSettled records that an agent has surely seen the answers of calls.
	OperationsSettled EventType = "OperationsSettled"
	// ChangesHeld records that acode puts changes of protected paths back. They wait for
	// a person.
	ChangesHeld EventType = "ChangesHeld"
	// HeldDecided records that a person applied or dropped held changes.
	HeldDecided       EventType = "HeldDecided"
	ApprovalRequested EventType = "ApprovalRequested"
	ApprovalGranted   EventType = "ApprovalGranted"
	ApprovalDenied    EventType = "ApprovalDenied"
	// CheckpointCreated asks for an extra checkpoint. A receipt brings its own.
	CheckpointCreated EventType = "CheckpointCreated"
	// ModelAsked is the intent of a request to a model.
	ModelAsked EventType = "ModelAsked"
	// ModelAnswered is the receipt of a request that got a whole reply.
	ModelAnswered EventType = "ModelAnswered"
	// ModelFailed is the receipt of a request that got no whole reply.
	ModelFailed EventType = "ModelFailed"
	// MessageAdded adds a message to the conversation of a prompt step.
	MessageAdded EventType = "MessageAdded"
	// ContextReduced leaves old parts of a conversation out of later requests.
	ContextReduced EventType = "ContextReduced"
	// PlanAdopted replaces the plan of a session by one that a model proposed.
	PlanAdopted EventType = "PlanAdopted"
)

// EventTypes lists every type, for schemas and exhaustive tests.
var EventTypes = []EventType{
	SessionCreated, StateChanged, ExecutionAcquired, ChangesAccepted, InputsChanged, PowersGranted, StepStarted, StepCompleted,
	StepFailedEvent, StepUnknown, OperationStarted, OperationCompleted, OperationFailed, OperationUnknown, OperationsSettled,
	ChangesHeld, HeldDecided, ApprovalRequested, ApprovalGranted, ApprovalDenied, CheckpointCreated,
	ModelAsked, ModelAnswered, ModelFailed, MessageAdded, ContextReduced, PlanAdopted,
}

// Receipt reports whether events of this type end an attempt and carry a checkpoint
// (FR-014).
func (t EventType) Receipt() bool {
	switch t {
	case StepCompleted, StepFailedEvent, OperationCompleted, OperationFailed, ModelAnswered, ModelFailed:
		return true
	}
	return false
}

// OfOperation reports whether events of this type are about an operation of a step.
func (t EventType) OfOperation() bool {
	switch t {
	case OperationStarted, OperationCompleted, OperationFailed, OperationUnknown, OperationsSettled:
		return true
	}
	return false
}

// Hash is a SHA-256.
type Hash [32]byte

// String returns the hash in lower-case hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Event is one immutable fact of a session. Payload is redacted JSON of at most
// MaxPayloadBytes; larger content is a blob that the payload names. In payload types the
// tag redact:"-" marks a field that is not redacted. Such a field is a name that acode
// looks up again, or one of acode's own words.
type Event struct {
	// ID is a UUIDv7.
	ID      [16]byte
	Session ID
	// Seq counts from 1 without gaps.
	Seq uint64
	// TimeUS is the time of a hybrid clock; it strictly increases within a store.
	TimeUS int64
	Type   EventType
	// Actor is "user", "acode" or "policy".
	Actor string
	// Epoch is that of the executing process. If another process wrote the event, it is
	// the latest epoch.
	Epoch   uint64
	Payload []byte
	// Hash covers all fields above and the hash of the event before.
	Hash Hash
	// Full is the payload if Payload only names a blob. The chain does not cover it.
	Full []byte
}

// MaxPayloadBytes bounds a payload in the journal.
const MaxPayloadBytes = 16 << 10

// Time returns the event's time in UTC.
func (e Event) Time() time.Time { return time.UnixMicro(e.TimeUS).UTC() }

// Content returns the payload of e.Type. It returns Full if Payload only names a blob.
func (e Event) Content() []byte {
	if e.Full != nil {
		return e.Full
	}
	return e.Payload
}

// Decode decodes the payload into data, a pointer to the payload type of e.Type. It
// returns ErrCorrupt if the payload is not valid.
func (e Event) Decode(data any) error {
	if err := json.Unmarshal(e.Content(), data); err != nil {
		return &Error{Code: ErrCorrupt, Message: fmt.Sprintf("the payload of %s is unreadable", e.Type), Place: fmt.Sprintf("seq %d", e.Seq), Cause: err}
	}
	return nil
}

// chainDomain separates this hash from every other use of SHA-256. Its number is the
// version of the format.
const chainDomain = "acode-event-v1\x00"

// ChainHash returns the correct value of e.Hash if prev is the hash of the event before
// (I6). The first event of a session follows the zero hash. docs/format.md describes the
// layout.
func (e Event) ChainHash(prev Hash) Hash {
	// The array is large enough for most events, so hashing a long backlog allocates
	// little.
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

// Draft is an event to which the journal has not yet given an id, seq, time, epoch and
// hash.
type Draft struct {
	Type EventType
	// An empty Actor means "acode".
	Actor string
	// Data is a value of the payload type of Type.
	Data any
}

// SessionCreatedData is the first event of a session.
type SessionCreatedData struct {
	V     int    `json:"v"`
	Short string `json:"short_id" redact:"-"`
	Task  string `json:"task"`
	// Workspace is an absolute path.
	Workspace string `json:"workspace" redact:"-"`
	// Plan is the JSON of a Plan.
	Plan BlobRef `json:"plan"`
	// Inputs is the JSON of Inputs. If it is zero, no inputs were recorded.
	Inputs BlobRef `json:"inputs,omitzero"`
	// Learnt holds the fingerprints of the known secrets. If it is zero, no secret was
	// known.
	Learnt BlobRef `json:"learnt,omitzero"`
	// PlanFile is the absolute path of the plan file. It is empty if the plan came from
	// no file.
	PlanFile string `json:"plan_file,omitempty" redact:"-"`
	// PlanSum is the SHA-256 of that file in hex.
	PlanSum   string    `json:"plan_sum,omitempty" redact:"-"`
	Tasks     int       `json:"tasks"`
	Steps     int       `json:"steps"`
	OnFailure OnFailure `json:"on_failure" redact:"-"`
	// Config is the JSON of the configuration at the start.
	Config string `json:"config,omitempty" redact:"-"`
	// Program is the version of acode.
	Program string `json:"program" redact:"-"`

	// ForkedFrom is nil if the session is not a fork.
	ForkedFrom *ForkPoint `json:"forked_from,omitempty"`
}

// ForkPoint is the place where a session left the history of another session, which the
// server has.
type ForkPoint struct {
	Session ID `json:"session" redact:"-"`
	// Seq is that of the last common event; 0 means that there is none.
	Seq uint64 `json:"seq"`
	// Hash is that of the last common event, in hex.
	Hash string `json:"hash,omitempty" redact:"-"`
}

// BlobRef names content outside the journal by its SHA-256 in hex. Bytes is the length
// before compression and encryption. The zero value names nothing.
type BlobRef struct {
	Hash  string `json:"hash,omitempty" redact:"-"`
	Bytes int64  `json:"bytes,omitempty"`
	// Sealed content is encrypted. acode never shows, logs or sends it.
	Sealed bool `json:"sealed,omitempty"`
}

// StateChangedData moves a session from one state to another.
type StateChangedData struct {
	From   State  `json:"from" redact:"-"`
	To     State  `json:"to" redact:"-"`
	Reason Reason `json:"reason,omitempty" redact:"-"`
	Detail string `json:"detail,omitempty"`
	// Code is that of the failure that caused the change.
	Code Code `json:"code,omitempty" redact:"-"`
	// Signal is the number of the signal that caused the change.
	Signal int `json:"signal,omitempty"`

	// Manifest and Git describe the tracked files at a pause or a question.
	Manifest string `json:"manifest,omitempty" redact:"-"`
	Git      string `json:"git,omitempty" redact:"-"`
}

// ExecutionAcquiredData begins an epoch. The event's own Epoch is its number.
type ExecutionAcquiredData struct {
	// Device is the random id of the store.
	Device string `json:"device" redact:"-"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	// Workspace may differ from the one before, because a person can move it.
	Workspace string `json:"workspace" redact:"-"`
	// Manifest is the blob hash of the manifest of tracked files.
	Manifest string `json:"manifest,omitempty" redact:"-"`
	// Git is the JSON of the state of git, which this package does not interpret.
	Git string `json:"git,omitempty" redact:"-"`
	// Config is the JSON of the present configuration.
	Config string `json:"config,omitempty" redact:"-"`

	// Learnt holds the fingerprints of all known secrets. If it is zero, they have not
	// changed.
	Learnt BlobRef `json:"learnt,omitzero"`
}

// ChangesAcceptedData makes changed files the new recorded state.
type ChangesAcceptedData struct {
	// By is "person", "policy" or "flag".
	By    string      `json:"by"`
	Files []FileState `json:"files"`
}

// PowersGrantedData says what an agent or a model may do from here on, in this execution
// of the session.
type PowersGrantedData struct {
	// Sandbox is Unconfined or ConfinedOnline, or empty if it was not changed.
	Sandbox Confinement `json:"sandbox,omitempty"`
	// Classes of calls are allowed without a question.
	Classes []string `json:"classes,omitempty" redact:"-"`
	// By is "flag".
	By string `json:"by"`
}

// InputsChangedData replaces the inputs by the present environment.
type InputsChangedData struct {
	// Inputs is the JSON of Inputs.
	Inputs BlobRef `json:"inputs"`
	// Names lists the first variables whose recorded values changed.
	Names []string `json:"names,omitempty" redact:"-"`
}

// StepStartedData is the intent of one attempt.
type StepStartedData struct {
	StepID
	Kind    Kind   `json:"kind" redact:"-"`
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	// Digest is that of the step with its captures filled in.
	Digest string `json:"digest" redact:"-"`
	// Call is set for an operation that an agent asked for.
	Call *Call `json:"call,omitempty"`
	// Files is set for a file step.
	Files []Transition `json:"files,omitempty"`
	// Guard names the blob with the state of the protected paths before a command. It is
	// empty if they are not guarded.
	Guard string `json:"guard,omitempty" redact:"-"`
	// Approval is the digest of the yes that an operation uses up. It is empty if none was
	// needed.
	Approval string `json:"approval,omitempty" redact:"-"`
	// By says who ordered a further attempt: "check", "policy", "person" or "resume".
	By string `json:"by,omitempty"`
	// After is the seq of the StepUnknown of the attempt before. It is 0 if that attempt
	// has a receipt.
	After uint64 `json:"after,omitempty"`
}

// StepCompletedData is the receipt of an attempt that succeeded.
type StepCompletedData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	// By is empty if the step was carried out. "applied", "check", "policy" and "person"
	// say who found or declared it done.
	By    string      `json:"by,omitempty"`
	Files []FileState `json:"files,omitempty"`
	// EndedUS is the end of a command that ended earlier than this event.
	EndedUS int64 `json:"ended_us,omitempty"`
	// Matches is the result of a search, or the text that a call of a model read.
	Matches *Output        `json:"matches,omitempty"`
	Command *CommandResult `json:"command,omitempty"`
	Capture *Capture       `json:"capture,omitempty"`

	// Manifest describes the tracked files after a command. It is empty if they did not
	// change.
	Manifest string `json:"manifest,omitempty" redact:"-"`
	// Held are the changes of protected paths that acode put back.
	Held []HeldChange `json:"held,omitempty"`

	// Learnt is set for a sealed capture, as in ExecutionAcquiredData. It is not part of
	// the result.
	Learnt BlobRef `json:"learnt,omitzero"`
}

// StepFailedData is the receipt of an attempt that failed.
type StepFailedData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	By      string `json:"by,omitempty"`
	Code    Code   `json:"code" redact:"-"`
	Message string `json:"message"`
	// EndedUS is the end of a command that ended earlier than this event.
	EndedUS int64          `json:"ended_us,omitempty"`
	Files   []FileState    `json:"files,omitempty"`
	Command *CommandResult `json:"command,omitempty"`

	// Manifest and Held are as in StepCompletedData.
	Manifest string       `json:"manifest,omitempty" redact:"-"`
	Held     []HeldChange `json:"held,omitempty"`
}

// StepUnknownData records that the outcome of an attempt is unknown. The attempt was in
// progress, or it failed because acode ended its command.
type StepUnknownData struct {
	StepID
	Key     string `json:"key" redact:"-"`
	Attempt int    `json:"attempt"`
	Why     string `json:"why"`

	// Command holds the output up to then. It is nil if no output was kept.
	Command *CommandResult `json:"command,omitempty"`

	// Manifest and Held are as in StepCompletedData.
	Manifest string       `json:"manifest,omitempty" redact:"-"`
	Held     []HeldChange `json:"held,omitempty"`
}

// OperationStartedData is the intent of one attempt of an operation.
type OperationStartedData = StepStartedData

// OperationCompletedData is the receipt of an operation that succeeded.
type OperationCompletedData = StepCompletedData

// OperationFailedData is the receipt of an operation that failed.
type OperationFailedData = StepFailedData

// OperationUnknownData records that the outcome of an operation is unknown.
type OperationUnknownData = StepUnknownData

// OperationsSettledData names operations of a step. No later call is answered with their
// records.
type OperationsSettledData struct {
	StepID
	Ops []string `json:"ops" redact:"-"`
}

// ApprovalRequestedData asks a person. Digest binds the answer to the question. Op of the
// StepID is set for a question about a call of a model.
type ApprovalRequestedData struct {
	StepID
	Question string `json:"question"`
	Digest   string `json:"digest" redact:"-"`
	// Call is the digest of the call of an outside agent, which makes it again after a
	// yes.
	Call string `json:"call,omitempty" redact:"-"`
	// Detail says what the call does, line by line.
	Detail []string `json:"detail,omitempty"`
	// Offer is the rule that a yes to more than this call adds. It is empty if a yes can
	// hold only for this call.
	Offer string `json:"offer,omitempty"`
}

// ApprovalGrantedData is a yes that can be used once.
type ApprovalGrantedData struct {
	StepID
	Digest string `json:"digest" redact:"-"`
	By     string `json:"by"`
	// For is the only epoch that may use the yes.
	For uint64 `json:"for_epoch"`
	// Scope says whether the yes also holds for later calls.
	Scope Scope `json:"scope,omitempty" redact:"-"`
}

// Scope says for which calls a yes holds. If it is empty, the yes holds for one call.
type Scope string

// The scopes of a yes besides that for one call. Each adds the rule that the question
// offers.
const (
	ScopeSession Scope = "session"
	ScopeAlways  Scope = "always"
)

// ApprovalDeniedData is a no.
type ApprovalDeniedData struct {
	StepID
	Digest string `json:"digest" redact:"-"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// ContextReducedData leaves the oldest replies of a conversation out of later requests,
// or the outputs of their calls. Nothing is deleted.
type ContextReducedData struct {
	StepID
	// Replies is how many of the replies that are still in the requests are meant, from
	// the oldest.
	Replies int `json:"replies"`
	// Summary takes the place of the replies with their results. If it is empty, only
	// their long outputs are left out.
	Summary string `json:"summary,omitempty"`
}

// PlanAdoptedData is the plan of the session from here on. Its first task is the one in
// which a model made the rest.
type PlanAdoptedData struct {
	StepID
	// Plan is the JSON of a Plan.
	Plan  BlobRef `json:"plan"`
	Tasks int     `json:"tasks"`
	Steps int     `json:"steps"`
}

// CheckpointCreatedData asks for a checkpoint without a receipt.
type CheckpointCreatedData struct {
	Why string `json:"why"`
}

// Image describes the content of a path at one moment.
type Image struct {
	// Kind is "absent" or "file".
	Kind string `json:"kind" redact:"-"`
	// Hash is a SHA-256 in hex.
	Hash string `json:"hash,omitempty" redact:"-"`
	Size int64  `json:"size,omitempty"`
	// Mode holds the permission bits.
	Mode uint32 `json:"mode,omitempty"`
}

// Absent reports whether nothing exists at the path.
func (i Image) Absent() bool { return i.Kind == "absent" }

// Transition is the change that a file step makes to one path.
type Transition struct {
	Path string `json:"path" redact:"-"`
	Pre  Image  `json:"pre"`
	Post Image  `json:"post"`
	// From is the old path of the file if the change is a rename.
	From string `json:"from,omitempty" redact:"-"`
	// Kept names the blob with the content of the pre-image.
	Kept string `json:"kept,omitempty" redact:"-"`
	// Made names the blob with the content of the post-image. It is set if this has at
	// most 64 KiB and is not in the plan.
	Made string `json:"made,omitempty" redact:"-"`
}

// FileState is the last recorded state of a file.
type FileState struct {
	Path string `json:"path" redact:"-"`
	// Hash is empty if the file is absent.
	Hash    string `json:"hash,omitempty" redact:"-"`
	Size    int64  `json:"size,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	MTimeNS int64  `json:"mtime_ns,omitempty"`
	CTimeNS int64  `json:"ctime_ns,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	// Racy says that the file was changed within the granularity of the clock. Its stat
	// proves nothing; compare the hash.
	Racy bool `json:"racy,omitempty"`
	// Wrote says that the session wrote the file; otherwise the session read it.
	Wrote bool `json:"wrote,omitempty"`
}

// Output is redacted text that a step produced. Blob holds the text if it is too long for
// Text.
type Output struct {
	Text string  `json:"text,omitempty"`
	Blob BlobRef `json:"blob,omitzero"`
	// Bytes is the length before any cut.
	Bytes int64 `json:"bytes"`
	// Cut says that the middle is missing.
	Cut bool `json:"cut,omitempty"`
	// Whole names the full output of a command if the output was cut or is not text. It
	// is delivered only with sync.output: full.
	Whole BlobRef `json:"whole,omitzero"`
}

// CommandResult describes the end of a command.
type CommandResult struct {
	// Exit is 0 to 255, or -1 if a signal ended the command or it never started.
	Exit int `json:"exit"`
	// Signal is a name such as "SIGKILL".
	Signal   string `json:"signal,omitempty" redact:"-"`
	TimedOut bool   `json:"timed_out,omitempty"`
	// Cancelled says that a person ended the command.
	Cancelled  bool   `json:"cancelled,omitempty"`
	StartError string `json:"start_error,omitempty"`
	DurationUS int64  `json:"duration_us"`
	// Stdout holds both streams in their order, unless the step has a capture.
	Stdout Output `json:"stdout"`
	Stderr Output `json:"stderr"`
	// Left lists descendants that were still running.
	Left []string `json:"left,omitempty"`
}

// Capture is a value for later steps.
type Capture struct {
	Name string `json:"name" redact:"-"`
	// Value is set if redaction does not change the value.
	Value string `json:"value,omitempty"`
	// Blob holds the value otherwise, sealed.
	Blob BlobRef `json:"blob,omitzero"`
}

// ParseUUID returns the 16 bytes of a UUID in canonical text form.
func ParseUUID(s string) (u [16]byte, err error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) != 16 || len(s) != 36 {
		return u, fmt.Errorf("parse UUID %q", s)
	}
	return [16]byte(raw), nil
}

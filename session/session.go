package session

import (
	"cmp"
	"fmt"
	"slices"
)

// Session is the state that a journal adds up to. Only Apply changes it (I1).
type Session struct {
	ID ID
	// about 6 characters, unique in the store
	Short string
	Task  string
	// absolute
	Workspace string
	Plan      BlobRef
	// blob hash of the Inputs; empty: none were recorded
	Inputs string
	// blob hash of the fingerprints of all secrets that its processes knew; empty: of
	// none
	Learnt string
	// of the plan
	Tasks int
	// of the plan
	StepTotal int
	OnFailure OnFailure
	// JSON of the configuration of the latest epoch
	Config string

	State State
	// the state that Paused left; empty otherwise
	Left State
	// of State, when it has one
	Reason Reason
	Detail string

	// 0 before the first acquisition
	Epoch  uint64
	Device string
	// blob hash of the latest manifest of tracked files
	Manifest  string
	Git       string
	LastSeq   uint64
	LastUS    int64
	CreatedUS int64
	// of the last event
	Head Hash
	// completed steps
	Done int

	Steps map[StepID]*StepState
	Files map[string]*FileState
}

// StepState is what is known of a step that has started or been asked about.
type StepState struct {
	StepID
	Status  Status
	Attempt int
	Key     string
	// of its latest StepStarted; 0 when it never started
	StartSeq uint64
	// of the event that last changed it
	LastSeq   uint64
	StartedUS int64
	// 0 while it is not over
	EndedUS int64
	// of a failure
	Code     Code
	Message  string
	Capture  *Capture
	Approval *Approval
}

// Approval is the latest question of an approve step and what became of it.
type Approval struct {
	Digest string `json:"digest"`
	// "", "granted", "denied"
	Answer string `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	For    uint64 `json:"for_epoch,omitempty"`
}

// Lapsed reports whether a yes was for an epoch before this one: nobody can use it any
// more, and it can be given again when the question is asked anew.
func (a Approval) Lapsed(epoch uint64) bool { return a.Answer == "granted" && a.For < epoch }

// Delta names what an Apply changed besides the session's own fields.
type Delta struct {
	Steps    []StepID
	Files    []string
	Manifest bool
	Learnt   bool
}

// Status gives where a step stands; Pending when nothing is known of it.
func (s *Session) Status(id StepID) Status {
	if st := s.Steps[id]; st != nil {
		return st.Status
	}
	return Pending
}

// Resumable reports whether the session may be resumed when nobody executes it (FR-003).
func (s *Session) Resumable() bool { return s.State != "" && !s.State.Terminal() }

// Apply adds the next event. It returns ErrOrder when e does not follow in seq and time,
// ErrCorrupt when its payload or its hash is wrong, and ErrConflict when the rules forbid
// it; the session is unusable after an error.
func (s *Session) Apply(e Event) (Delta, error) { return s.ApplyData(e, nil) }

// ApplyData is Apply for a caller that has the payload decoded: data is of the payload
// type of e.Type and what Decode would give, which is believed. Any other data, nil too,
// is left aside and the payload decoded. The session may keep what data points to.
func (s *Session) ApplyData(e Event, data any) (Delta, error) {
	if err := s.follows(e); err != nil {
		return Delta{}, err
	}
	d, err := s.apply(e, data)
	if err != nil {
		return Delta{}, err
	}
	s.LastSeq, s.LastUS, s.Head = e.Seq, e.TimeUS, e.Hash
	return d, nil
}

func (s *Session) follows(e Event) error {
	place := fmt.Sprintf("seq %d", e.Seq)
	switch {
	case e.Seq != s.LastSeq+1:
		return &Error{Code: ErrOrder, Message: fmt.Sprintf("event %d follows event %d", e.Seq, s.LastSeq), Place: place}
	case e.TimeUS <= s.LastUS && e.Seq > 1:
		return &Error{Code: ErrOrder, Message: "the event is not later than the one before it", Place: place}
	case e.Hash != e.ChainHash(s.Head):
		return &Error{Code: ErrCorrupt, Message: "the hash of the event does not match its content", Place: place}
	case (e.Seq == 1) != (e.Type == SessionCreated):
		return &Error{Code: ErrCorrupt, Message: fmt.Sprintf("%s in the wrong place", e.Type), Place: place}
	case e.Seq > 1 && e.Session != s.ID:
		return &Error{Code: ErrCorrupt, Message: "the event belongs to another session", Place: place}
	case e.Type != ExecutionAcquired && e.Epoch != s.Epoch:
		return conflict(e, "%s of epoch %d in epoch %d", e.Type, e.Epoch, s.Epoch)
	case e.Seq > 1 && s.State.Terminal():
		return conflict(e, "%s after the session was %s", e.Type, s.State)
	}
	return nil
}

func (s *Session) apply(e Event, data any) (Delta, error) {
	switch e.Type {
	case SessionCreated:
		return applyAs(e, data, s.created)
	case StateChanged:
		return applyAs(e, data, s.stateChanged)
	case ExecutionAcquired:
		return applyAs(e, data, s.acquired)
	case ChangesAccepted:
		return applyAs(e, data, func(_ Event, d ChangesAcceptedData) (Delta, error) {
			return Delta{Files: s.setFiles(d.Files)}, nil
		})
	case InputsChanged:
		return applyAs(e, data, func(_ Event, d InputsChangedData) (Delta, error) {
			s.Inputs = d.Inputs.Hash
			return Delta{}, nil
		})
	case StepStarted:
		return applyAs(e, data, s.started)
	case StepCompleted:
		return applyAs(e, data, s.completed)
	case StepFailedEvent:
		return applyAs(e, data, s.failed)
	case StepUnknown:
		return applyAs(e, data, s.unknown)
	case ApprovalRequested:
		return applyAs(e, data, s.requested)
	case ApprovalGranted:
		return applyAs(e, data, s.granted)
	case ApprovalDenied:
		return applyAs(e, data, s.denied)
	case CheckpointCreated:
		return Delta{}, nil
	}
	return Delta{}, &Error{Code: ErrNewer, Message: fmt.Sprintf("this acode does not know events of type %q", e.Type), Place: fmt.Sprintf("seq %d", e.Seq)}
}

func applyAs[D any](e Event, data any, f func(Event, D) (Delta, error)) (Delta, error) {
	d, ok := data.(D)
	if !ok {
		if err := e.Decode(&d); err != nil {
			return Delta{}, err
		}
	}
	return f(e, d)
}

func (s *Session) created(e Event, d SessionCreatedData) (Delta, error) {
	*s = Session{
		ID: e.Session, Short: d.Short, Task: d.Task, Workspace: d.Workspace, Plan: d.Plan, Inputs: d.Inputs.Hash, Learnt: d.Learnt.Hash,
		Tasks: d.Tasks, StepTotal: d.Steps, OnFailure: d.OnFailure, Config: d.Config,
		State: Created, CreatedUS: e.TimeUS,
		Steps: map[StepID]*StepState{}, Files: map[string]*FileState{},
	}
	return Delta{}, nil
}

func (s *Session) stateChanged(e Event, d StateChangedData) (Delta, error) {
	if d.From != s.State || !s.State.CanBecome(d.To) {
		return Delta{}, conflict(e, "a session in state %s cannot go from %s to %s", s.State, d.From, d.To)
	}
	if d.To.Terminal() {
		for id, st := range s.Steps {
			if st.Status == InProgress {
				return Delta{}, conflict(e, "a session cannot become %s while %s is in progress", d.To, id)
			}
		}
	}
	s.Left = ""
	if d.To == Paused {
		s.Left = s.State
	}
	s.State, s.Reason, s.Detail = d.To, d.Reason, d.Detail
	if d.Manifest != "" {
		s.Manifest, s.Git = d.Manifest, d.Git
	}
	return Delta{}, nil
}

func (s *Session) acquired(e Event, d ExecutionAcquiredData) (Delta, error) {
	if e.Epoch != s.Epoch+1 || s.State.Terminal() {
		return Delta{}, conflict(e, "epoch %d cannot follow epoch %d in state %s", e.Epoch, s.Epoch, s.State)
	}
	s.Epoch, s.Device, s.Workspace, s.Config = e.Epoch, d.Device, d.Workspace, d.Config
	s.Manifest, s.Git, s.Learnt = d.Manifest, d.Git, cmp.Or(d.Learnt.Hash, s.Learnt)
	return Delta{}, nil
}

func (s *Session) started(e Event, d StepStartedData) (Delta, error) {
	st := s.step(d.StepID)
	if st.Status == StepDone || d.Attempt != st.Attempt+1 {
		return Delta{}, conflict(e, "attempt %d of %s cannot start: it is %s, attempt %d", d.Attempt, d.StepID, st.Status, st.Attempt)
	}
	if want := (Key{Session: s.ID, Step: d.StepID, Operation: OpMain, Attempt: d.Attempt}).String(); d.Key != want {
		return Delta{}, conflict(e, "the key of attempt %d of %s is %s, want %s", d.Attempt, d.StepID, d.Key, want)
	}
	*st = StepState{
		StepID: d.StepID, Status: InProgress, Attempt: d.Attempt, Key: d.Key, Approval: st.Approval,
		StartSeq: e.Seq, LastSeq: e.Seq, StartedUS: e.TimeUS,
	}
	return Delta{Steps: []StepID{d.StepID}}, nil
}

// open finds the attempt that key started and that is not over.
func (s *Session) open(e Event, id StepID, key string, attempt int) (*StepState, error) {
	st := s.Steps[id]
	if st == nil || st.Key != key || st.Attempt != attempt || (st.Status != InProgress && st.Status != StepUncertain) {
		return nil, conflict(e, "%s ends an attempt of %s that is not open: %s", e.Type, id, key)
	}
	st.LastSeq = e.Seq
	return st, nil
}

func (s *Session) completed(e Event, d StepCompletedData) (Delta, error) {
	st, err := s.open(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	st.Status, st.EndedUS, st.Capture = StepDone, st.end(e, d.EndedUS), d.Capture
	st.Code, st.Message = "", ""
	s.Done++
	s.Learnt = cmp.Or(d.Learnt.Hash, s.Learnt)
	return Delta{Steps: []StepID{d.StepID}, Files: s.setFiles(d.Files), Manifest: s.seen(d.Manifest), Learnt: d.Learnt.Hash != ""}, nil
}

// seen takes up the manifest of a receipt.
func (s *Session) seen(manifest string) bool {
	s.Manifest = cmp.Or(manifest, s.Manifest)
	return manifest != ""
}

func (s *Session) failed(e Event, d StepFailedData) (Delta, error) {
	st, err := s.open(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	st.Status, st.EndedUS, st.Code, st.Message = StepFailed, st.end(e, d.EndedUS), d.Code, d.Message
	return Delta{Steps: []StepID{d.StepID}, Files: s.setFiles(d.Files), Manifest: s.seen(d.Manifest)}, nil
}

// end is when an attempt was over: at its receipt, or before it where a command ended
// while nobody looked. Its supervisor goes by a clock that may have been set back since
// the attempt began.
func (st *StepState) end(e Event, endedUS int64) int64 {
	if endedUS < st.StartedUS || endedUS > e.TimeUS {
		return e.TimeUS
	}
	return endedUS
}

func (s *Session) unknown(e Event, d StepUnknownData) (Delta, error) {
	if st := s.Steps[d.StepID]; st != nil && st.Status == StepFailed && st.Code.Ordered() {
		st.Status, st.Code, st.EndedUS = InProgress, "", 0
	}
	st, err := s.open(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	st.Status, st.Message = StepUncertain, d.Why
	return Delta{Steps: []StepID{d.StepID}, Manifest: s.seen(d.Manifest)}, nil
}

func (s *Session) requested(e Event, d ApprovalRequestedData) (Delta, error) {
	st := s.step(d.StepID)
	if st.Status == StepDone {
		return Delta{}, conflict(e, "%s asks about %s, which is done", e.Type, d.StepID)
	}
	st.Approval, st.LastSeq = &Approval{Digest: d.Digest}, e.Seq
	return Delta{Steps: []StepID{d.StepID}}, nil
}

func (s *Session) granted(e Event, d ApprovalGrantedData) (Delta, error) {
	st, err := s.asked(e, d.StepID, d.Digest)
	if err != nil {
		return Delta{}, err
	}
	if st.Approval.Answer != "" { // a no can follow a yes; a yes needs a question that is open
		return Delta{}, conflict(e, "the question about %s is answered already: %s", d.StepID, st.Approval.Answer)
	}
	st.Approval.Answer, st.Approval.By, st.Approval.For = "granted", d.By, d.For
	return Delta{Steps: []StepID{d.StepID}}, nil
}

func (s *Session) denied(e Event, d ApprovalDeniedData) (Delta, error) {
	st, err := s.asked(e, d.StepID, d.Digest)
	if err != nil {
		return Delta{}, err
	}
	st.Approval.Answer, st.Approval.By, st.Approval.Reason = "denied", d.By, d.Reason
	return Delta{Steps: []StepID{d.StepID}}, nil
}

// asked finds the step whose open question has this digest: an answer never fits another
// question (NFR-012).
func (s *Session) asked(e Event, id StepID, digest string) (*StepState, error) {
	st := s.Steps[id]
	if st == nil || st.Approval == nil || st.Approval.Digest != digest || st.Status == StepDone {
		return nil, conflict(e, "%s answers a question about %s that is not open", e.Type, id)
	}
	st.LastSeq = e.Seq
	return st, nil
}

func (s *Session) step(id StepID) *StepState {
	st := s.Steps[id]
	if st == nil {
		st = &StepState{StepID: id, Status: Pending}
		s.Steps[id] = st
	}
	return st
}

// setFiles makes fs what the session knows of these paths. A path once written stays
// written.
func (s *Session) setFiles(fs []FileState) []string {
	paths := make([]string, 0, len(fs))
	for _, f := range fs {
		if old := s.Files[f.Path]; old != nil {
			f.Wrote = f.Wrote || old.Wrote
		}
		s.Files[f.Path] = &f
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func conflict(e Event, format string, args ...any) error {
	return &Error{Code: ErrConflict, Message: fmt.Sprintf(format, args...), Place: fmt.Sprintf("seq %d", e.Seq)}
}

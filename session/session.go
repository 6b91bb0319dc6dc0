package session

import (
	"cmp"
	"fmt"
	"slices"
)

// Session is the state that results from a journal. Only Apply changes it (I1).
type Session struct {
	ID ID
	// Short has about 6 characters and is unique in the store.
	Short string
	Task  string
	// Workspace is an absolute path.
	Workspace string
	Plan      BlobRef
	// Inputs is the blob hash of the Inputs. It is empty if none were recorded.
	Inputs string
	// Learnt is the blob hash of the fingerprints of all secrets that its processes knew.
	// It is empty if they knew none.
	Learnt string
	// Tasks and StepTotal count the tasks and steps of the plan.
	Tasks     int
	StepTotal int
	OnFailure OnFailure
	// Config is the JSON of the configuration of the latest epoch.
	Config string

	State State
	// Left is the state before Paused. It is empty in other states.
	Left State
	// Reason and Detail belong to State and may be empty.
	Reason Reason
	Detail string

	// Epoch is 0 before the first acquisition.
	Epoch  uint64
	Device string
	// Manifest is the blob hash of the latest manifest of tracked files.
	Manifest  string
	Git       string
	LastSeq   uint64
	LastUS    int64
	CreatedUS int64
	// Head is the hash of the last event.
	Head Hash
	// Done counts the completed steps.
	Done int
	// Calls is the greatest number of a call that an outside agent has asked for.
	Calls int
	// Rules are those that a person added to the powers of models in this session, one a
	// line.
	Rules string

	Steps map[StepID]*StepState
	// Ops holds the operations that are open, or whose answers the agent may not have
	// seen. It is nil if there were none.
	Ops   map[StepID]*StepState
	Files map[string]*FileState
}

// StepState is the state of a step that has started or has a question, or of an
// operation.
type StepState struct {
	StepID
	// Tool and Digest are those of the Call of an operation.
	Tool    string
	Digest  string
	Status  Status
	Attempt int
	Key     string
	// StartSeq is the seq of the latest StepStarted; 0 means that the step never started.
	StartSeq uint64
	// LastSeq is the seq of the last event that changed the step.
	LastSeq   uint64
	StartedUS int64
	// EndedUS is 0 while the step is not over.
	EndedUS int64
	// Code and Message describe a failure.
	Code     Code
	Message  string
	Capture  *Capture
	Approval *Approval
	// Held has the seqs of the events ChangesHeld that wait for a person.
	Held []uint64
	// Talk is set for a prompt step that has started.
	Talk *Talk
}

// Delta names the changes of an Apply besides the session's own fields.
type Delta struct {
	// Cursor is what a receipt ends: a step, an operation or a request to a model.
	Cursor StepID
	Steps  []StepID
	// Ops also names the operations that were removed.
	Ops      []StepID
	Files    []string
	Manifest bool
	Learnt   bool
	// Scalars says that fields of the session changed that rarely change.
	Scalars bool
}

// Status returns the status of a step. It returns Pending for a step without an entry.
func (s *Session) Status(id StepID) Status {
	if st := s.At(id); st != nil {
		return st.Status
	}
	return Pending
}

// At returns the state of a step or an operation. It returns nil if there is none.
func (s *Session) At(id StepID) *StepState {
	if id.Op != "" {
		return s.Ops[id]
	}
	return s.Steps[id]
}

// changed names the step or the operation id in a Delta.
func changed(id StepID) Delta {
	if id.Op != "" {
		return Delta{Ops: []StepID{id}}
	}
	return Delta{Steps: []StepID{id}}
}

// Resumable reports whether a resume of the session is possible while no process executes
// it (FR-003).
func (s *Session) Resumable() bool { return s.State != "" && !s.State.Terminal() }

// Apply applies the next event. It returns ErrOrder if e does not follow in seq and time,
// ErrCorrupt if its payload or its hash is wrong, and ErrConflict if the rules forbid it.
// After an error the session must not be used.
func (s *Session) Apply(e Event) (Delta, error) { return s.ApplyData(e, nil) }

// ApplyData is Apply for a caller that has already decoded the payload. data must be the
// value that Decode returns for e; ApplyData does not verify this. If data is nil or has
// another type, ApplyData decodes the payload itself. The session may keep pointers from
// data.
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
	case PowersGranted, CheckpointCreated:
		return Delta{}, nil
	case StepStarted, OperationStarted:
		return applyAs(e, data, s.started)
	case StepCompleted, OperationCompleted:
		return applyAs(e, data, s.completed)
	case StepFailedEvent, OperationFailed:
		return applyAs(e, data, s.failed)
	case StepUnknown, OperationUnknown:
		return applyAs(e, data, s.unknown)
	case OperationsSettled:
		return applyAs(e, data, s.settled)
	case ChangesHeld:
		return applyAs(e, data, s.held)
	case HeldDecided:
		return applyAs(e, data, s.heldDecided)
	case ModelAsked:
		return applyAs(e, data, s.modelAsked)
	case ModelAnswered:
		return applyAs(e, data, s.modelAnswered)
	case ModelFailed:
		return applyAs(e, data, s.modelFailed)
	case MessageAdded:
		return applyAs(e, data, s.messageAdded)
	case ContextReduced:
		return applyAs(e, data, s.contextReduced)
	case PlanAdopted:
		return applyAs(e, data, s.adopted)
	case ApprovalRequested:
		return applyAs(e, data, s.requested)
	case ApprovalGranted:
		return applyAs(e, data, s.granted)
	case ApprovalDenied:
		return applyAs(e, data, s.denied)
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
		for _, all := range []map[StepID]*StepState{s.Steps, s.Ops} {
			for id, st := range all {
				if st.Status == InProgress {
					return Delta{}, conflict(e, "a session cannot become %s while %s is in progress", d.To, id)
				}
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
	st, err := s.begun(e, d)
	if err != nil {
		return Delta{}, err
	}
	if st.Status == StepDone || d.Attempt != st.Attempt+1 {
		return Delta{}, conflict(e, "attempt %d of %s cannot start: it is %s, attempt %d", d.Attempt, d.StepID, st.Status, st.Attempt)
	}
	if want := KeyOf(s.ID, d.StepID, d.Attempt).String(); d.Key != want {
		return Delta{}, conflict(e, "the key of attempt %d of %s is %s, want %s", d.Attempt, d.StepID, d.Key, want)
	}
	var talk *Talk
	if d.Kind == KindPrompt {
		talk = newTalk(st.Talk)
	}
	out := changed(d.StepID)
	used, err := s.usesApproval(e, d)
	if err != nil {
		return Delta{}, err
	}
	if used {
		out.Steps = []StepID{d.Of()}
	}
	*st = StepState{
		StepID: d.StepID, Status: InProgress, Attempt: d.Attempt, Key: d.Key, Approval: st.Approval, Held: st.Held, Talk: talk,
		StartSeq: e.Seq, LastSeq: e.Seq, StartedUS: e.TimeUS,
	}
	if d.Call != nil {
		st.Tool, st.Digest = d.Call.Tool, d.Call.Digest
	}
	return out, nil
}

// begun returns the state of the step or the operation that d starts. It makes the state
// of the next operation.
func (s *Session) begun(e Event, d StepStartedData) (*StepState, error) {
	if e.Type.OfOperation() != (d.Op != "") || (d.Op != "") != (d.Call != nil) {
		return nil, conflict(e, "%s does not belong to %s", e.Type, d.StepID)
	}
	if d.Op == "" {
		return s.step(d.StepID), nil
	}
	if st := s.Ops[d.StepID]; st != nil {
		return st, nil
	}
	if !s.nextCall(d.StepID) {
		return nil, conflict(e, "%s is not a next operation of a step in progress", d.StepID)
	}
	if s.Ops == nil {
		s.Ops = map[StepID]*StepState{}
	}
	s.Ops[d.StepID] = &StepState{StepID: d.StepID, Status: Pending}
	return s.Ops[d.StepID], nil
}

// nextCall reports whether a call of an outside agent or of a model may have this name.
// It counts the calls of an outside agent.
func (s *Session) nextCall(id StepID) bool {
	st := s.Steps[id.Of()]
	if st == nil || st.Status != InProgress {
		return false
	}
	if t := st.Talk; t != nil {
		turn, n, ok := TurnCall(id.Op)
		return ok && turn == t.Turn && n <= t.Calls && t.Asked == 0
	}
	n, ok := callNumber(id.Op)
	if !ok || n > s.Calls+MostCalls || n <= s.Calls-MostCalls {
		return false
	}
	s.Calls = max(s.Calls, n)
	return true
}

// open returns the attempt of key if it is not over, or ErrConflict.
func (s *Session) open(e Event, id StepID, key string, attempt int) (*StepState, error) {
	st := s.At(id)
	if st == nil || (id.Op != "") != e.Type.OfOperation() || st.Key != key || st.Attempt != attempt || (st.Status != InProgress && st.Status != StepUncertain) {
		return nil, conflict(e, "%s ends an attempt of %s that is not open: %s", e.Type, id, key)
	}
	st.LastSeq = e.Seq
	return st, nil
}

func (s *Session) completed(e Event, d StepCompletedData) (Delta, error) {
	st, out, err := s.ends(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	if st.Talk != nil && st.Talk.Asked != 0 {
		return Delta{}, conflict(e, "%s is completed, but its model has not answered", d.StepID)
	}
	st.Status, st.EndedUS, st.Capture = StepDone, st.end(e, d.EndedUS), d.Capture
	st.Code, st.Message = "", ""
	if d.Op == "" {
		s.Done++
	}
	s.Learnt = cmp.Or(d.Learnt.Hash, s.Learnt)
	out.Files, out.Manifest, out.Learnt = s.setFiles(d.Files), s.seen(d.Manifest), d.Learnt.Hash != ""
	d.Key = ""
	s.heard(e, d.StepID, &out, d)
	return out, nil
}

// ends is open, for a receipt. The end of a prompt step ends its conversation.
func (s *Session) ends(e Event, id StepID, key string, attempt int) (st *StepState, d Delta, err error) {
	if st, err = s.open(e, id, key, attempt); err != nil {
		return nil, d, err
	}
	d = changed(id)
	d.Cursor = id
	if st.Talk != nil {
		d.Ops, err = s.told(e, id)
	}
	return st, d, err
}

// seen takes the manifest of a receipt and reports whether there is one.
func (s *Session) seen(manifest string) bool {
	s.Manifest = cmp.Or(manifest, s.Manifest)
	return manifest != ""
}

func (s *Session) failed(e Event, d StepFailedData) (Delta, error) {
	st, out, err := s.ends(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	st.Status, st.EndedUS, st.Code, st.Message = StepFailed, st.end(e, d.EndedUS), d.Code, d.Message
	out.Files, out.Manifest = s.setFiles(d.Files), s.seen(d.Manifest)
	d.Key = ""
	s.heard(e, d.StepID, &out, d)
	return out, nil
}

// end returns the time at which an attempt ended. This is endedUS if the command ended
// before its receipt, while no acode process watched it. It is the time of e if endedUS
// lies outside the attempt, because the clock of the supervisor may have been set back.
func (st *StepState) end(e Event, endedUS int64) int64 {
	if endedUS < st.StartedUS || endedUS > e.TimeUS {
		return e.TimeUS
	}
	return endedUS
}

func (s *Session) unknown(e Event, d StepUnknownData) (Delta, error) {
	if st := s.At(d.StepID); st != nil && st.Status == StepFailed && st.Code.Ordered() {
		st.Status, st.Code, st.EndedUS = InProgress, "", 0
	}
	st, err := s.open(e, d.StepID, d.Key, d.Attempt)
	if err != nil {
		return Delta{}, err
	}
	st.Status, st.Message = StepUncertain, d.Why
	out := changed(d.StepID)
	out.Manifest = s.seen(d.Manifest)
	d.Key = ""
	s.heard(e, d.StepID, &out, d)
	return out, nil
}

func (s *Session) step(id StepID) *StepState {
	st := s.Steps[id]
	if st == nil {
		st = &StepState{StepID: id, Status: Pending}
		s.Steps[id] = st
	}
	return st
}

// setFiles records fs as the latest state of these paths. A path that was written once
// stays marked as written.
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

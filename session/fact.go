package session

import "time"

// Facts turns the events of one session, oldest first, into notices for a person. The
// process that executes a session and a process that reads its journal both use it. So
// both report the same.
type Facts struct {
	Plan *Plan
	// Items holds each step of Plan once, in order of execution, already redacted.
	Items []Item
	// A nil Redact shows everything.
	Redact func(string) string
	// Wrote returns the last lines of the output of a failed command, redacted. If it is
	// nil, notices contain no output.
	Wrote func(*CommandResult) []string
	// Value returns a captured value that is not a secret. If it is nil, notices contain
	// no values.
	Value func(*Capture) string

	// known holds Items by step.
	known map[StepID]Item
	// at holds the state of each step that has started.
	at    map[StepID]*StepState
	state State
	// last describes the session after the latest change of state.
	last Result
}

// Begin starts from the state of s. The next call of Of must be given the next event of
// s.
func (f *Facts) Begin(s *Session) {
	f.state, f.last = s.State, Result{Session: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Done: s.Done, Left: s.StepTotal - s.Done}
	f.at = map[StepID]*StepState{}
	for _, all := range []map[StepID]*StepState{s.Steps, s.Ops} {
		for id, st := range all {
			f.at[id] = &StepState{Status: st.Status, StartedUS: st.StartedUS, Attempt: st.Attempt}
		}
	}
}

// Of returns the notice for the next event. told is false if the event has none. data is
// the decoded payload before redaction, or nil if the caller does not have it. Of returns
// ErrCorrupt if the payload cannot be decoded.
func (f *Facts) Of(e Event, data any) (n Notice, told bool, err error) {
	switch e.Type {
	case SessionCreated:
		var d SessionCreatedData
		err = e.Decode(&d)
		f.at, f.state = map[StepID]*StepState{}, Created
		f.last = Result{Session: e.Session, Short: d.Short, State: Created, Left: d.Steps}
	case ExecutionAcquired:
		n = Notice{Kind: NoticeSession, Text: f.shown(f.Plan.Task)}
	case StateChanged:
		n, err = f.moved(e)
	case StepStarted, OperationStarted:
		d, ok := data.(StepStartedData)
		if !ok {
			err = e.Decode(&d)
		}
		f.called(d)
		f.at[d.StepID] = &StepState{Status: InProgress, Attempt: d.Attempt, StartedUS: e.TimeUS}
		if d.Kind != KindApprove { // The question already has a notice.
			n = Notice{Kind: NoticeStarted, Item: f.item(d.StepID, InProgress)}
		}
	case StepCompleted, OperationCompleted:
		d, ok := data.(StepCompletedData)
		if !ok {
			err = e.Decode(&d)
		}
		if d.Op == "" {
			f.last.Done, f.last.Left = f.last.Done+1, f.last.Left-1
		}
		n = Notice{Kind: NoticeCompleted, Took: f.took(e, d.StepID, d.EndedUS), Item: f.item(d.StepID, StepDone)}
		if d.Capture != nil && !d.Capture.Blob.Sealed && f.Value != nil {
			n.Text = f.Value(d.Capture)
		}
		switch {
		case n.Item.Kind == KindApprove:
			n.Text = "approved"
		case d.By == "person":
			n.Detail = []string{"a person declared it done"}
		case n.Item.Kind == KindPrompt && d.Matches != nil:
			n.Detail = AnswerLines(d.Matches.Text)
		}
	case StepFailedEvent, OperationFailed:
		var d StepFailedData
		err = e.Decode(&d)
		n = Notice{Kind: NoticeFailed, Took: f.took(e, d.StepID, d.EndedUS), Item: f.item(d.StepID, StepFailed), Text: d.Message}
		if d.By != "" {
			n.Text += " by " + d.By
		}
		if d.Command != nil && d.By == "" && f.Wrote != nil {
			if n.Detail = f.Wrote(d.Command); len(n.Detail) > 0 {
				n.Hint = Hint{Do: MoveLogs, Session: f.last.Short, Step: d.StepID}
			}
		}
	case StepUnknown, OperationUnknown:
		var d StepUnknownData
		err = e.Decode(&d)
		n = Notice{Kind: NoticeUncertain, Item: f.item(d.StepID, StepUncertain), Text: d.Why}
		if d.Command != nil {
			n.Detail = d.Command.Left
		}
	case ChangesHeld:
		var d ChangesHeldData
		err = e.Decode(&d)
		n = Notice{Kind: NoticeWarning, Item: f.item(d.StepID, f.status(d.StepID)), Text: "it changed paths that other programs execute or trust; acode put them back",
			Hint: Hint{Text: "to see the changes and decide", Do: MoveApprove, Session: f.last.Short, Step: d.StepID}}
		for _, h := range d.Held {
			n.Detail = append(n.Detail, h.Path+" ("+h.Change+")")
		}
	case ApprovalRequested:
		var d ApprovalRequestedData
		err = e.Decode(&d)
		if d.Op != "" {
			gate := CallGateOf(d)
			f.item(d.Of(), InProgress)
			f.known[d.StepID] = Item{ID: d.StepID, Title: "ask", Label: f.shown(d.Question)}
			n = Notice{Kind: NoticeAsking, Item: f.item(d.StepID, Pending), Text: d.Question, Detail: gate.Lines()}
			break
		}
		f.ask(d)
		gate := f.gate(d)
		it := f.item(d.StepID, f.status(d.StepID))
		if it.Task > 0 { // A step that the plan does not contain has no task. verify reports it.
			step := f.Plan.Tasks[it.Task-1].Steps[it.Step-1]
			step.Approve = d.Question
			it.Label = f.shown(step.Label())
			f.known[d.StepID] = *it // The notice of the answer uses this label.
		}
		n = Notice{Kind: NoticeAsking, Item: it, Text: gate.Question, Detail: gate.Lines()}
	}
	if err != nil || n.Kind == "" {
		return Notice{}, false, err
	}
	n.Seq, n.TimeUS = e.Seq, e.TimeUS
	if n.Text = f.shown(n.Text); len(n.Detail) > 0 {
		shown := make([]string, len(n.Detail))
		for i, line := range n.Detail {
			shown[i] = f.shown(line)
		}
		n.Detail = shown
	}
	return n, true, nil
}

// State returns the state of the session after the last event.
func (f *Facts) State() State { return f.state }

// Result returns the result of the session after the last event, for a reader while no
// process executes it.
func (f *Facts) Result() Result {
	r := f.last
	switch f.state {
	case AwaitingApproval:
		r.Code, r.Message = ErrApproval, "the session waits for approval"
	case Created, Planning, Executing:
		r.Signal, r.Message = killed, "the process that executed the session was killed or crashed"
	}
	return r
}

// killed is the number of SIGKILL. A shell reports this signal for a process that was
// killed.
const killed = 9

// moved handles a change of state. It returns a notice if the new state is paused or
// terminal.
func (f *Facts) moved(e Event) (Notice, error) {
	var d StateChangedData
	if err := e.Decode(&d); err != nil {
		return Notice{}, err
	}
	f.state = d.To
	f.last.State, f.last.Reason, f.last.Code, f.last.Message, f.last.Signal = d.To, d.Reason, d.Code, f.shown(d.Detail), d.Signal
	f.last.Next = f.next(d)
	if d.To != Paused && !d.To.Terminal() {
		return Notice{}, nil
	}
	r := f.last
	return Notice{Kind: NoticeResult, Result: &r}, nil
}

// next returns the hint for continuing the session after d.
func (f *Facts) next(d StateChangedData) Hint {
	switch {
	case d.To.Terminal():
		return Hint{}
	case d.To == AwaitingApproval:
		return Do(MoveApproveResume, f.last.Short)
	case d.Reason == ReasonUncertain:
		for _, it := range f.Items {
			if it.Kind == KindRun && f.status(it.ID) == StepUncertain {
				return f.Plan.Asks(f.last.Short, &it)
			}
		}
		return Do(MoveAnswer, f.last.Short)
	}
	return Do(MoveResume, f.last.Short)
}

// ask labels the item of a gate with its question, in which values are filled in.
func (f *Facts) ask(d ApprovalRequestedData) {
	it := f.item(d.StepID, f.status(d.StepID))
	if it.Task == 0 {
		return
	}
	step := f.Plan.Tasks[it.Task-1].Steps[it.Step-1]
	step.Approve = d.Question
	it.Label = f.shown(step.Label())
	f.known[d.StepID] = *it
}

// gate describes a question and the steps that run after a yes, without the completed
// ones.
func (f *Facts) gate(d ApprovalRequestedData) Gate {
	left := Continuation{Items: make([]Item, len(f.Items))}
	for i, it := range f.Items {
		if it.Action = ActionExecute; f.status(it.ID) == StepDone {
			it.Action = ActionSkip
		}
		left.Items[i] = it
	}
	g := f.Plan.GateOf(&left, d.StepID, d.Question)
	if f.Redact != nil {
		g = g.Redacted(f.Redact)
	}
	return g
}

// called makes the item of a call. The plan does not contain it.
func (f *Facts) called(d StepStartedData) {
	if d.Call != nil {
		f.item(d.Of(), InProgress)
		f.known[d.StepID] = Item{ID: d.StepID, Title: d.Call.Tool, Label: f.shown(d.Call.Label), Kind: d.Kind}
	}
}

func (f *Facts) status(id StepID) Status {
	if st := f.at[id]; st != nil {
		return st.Status
	}
	return Pending
}

// item returns the item of a step and sets its status.
func (f *Facts) item(id StepID, status Status) *Item {
	if f.known == nil {
		f.known = map[StepID]Item{}
		for _, it := range f.Items {
			f.known[it.ID] = it
			for _, call := range it.Calls {
				f.known[call.ID] = call
			}
		}
	}
	known := f.known[id]
	it := Item{ID: id, Task: known.Task, Step: known.Step, Title: known.Title, Label: known.Label, Kind: known.Kind, Action: ActionExecute, Status: status}
	if st := f.at[id]; st != nil {
		if it.Attempt, st.Status = st.Attempt, status; it.Attempt > 1 {
			it.Action = ActionRetry
		}
	}
	return &it
}

// took returns the duration of the attempt that e ends, by the clock of the journal.
func (f *Facts) took(e Event, id StepID, endedUS int64) time.Duration {
	st := f.at[id]
	if st == nil {
		return 0
	}
	return time.Duration(st.end(e, endedUS)-st.StartedUS) * time.Microsecond
}

func (f *Facts) shown(text string) string {
	if f.Redact == nil || text == "" {
		return text
	}
	return f.Redact(text)
}

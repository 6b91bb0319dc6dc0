package session

import "time"

// Facts turns the events of one session, oldest first, into what a person is told of
// them. The process that executes a session and one that reads its journal use the same
// fold, so that what they tell cannot differ.
type Facts struct {
	Plan   *Plan
	Items  []Item                        // each step of Plan once, in order of execution, as it may be shown
	Redact func(string) string           // nil shows everything
	Wrote  func(*CommandResult) []string // the end of what a failed command wrote, as it may be shown; nil: nothing
	Value  func(*Capture) string         // what a command gave that is no secret; nil: nothing

	known map[StepID]Item       // Items by step
	at    map[StepID]*StepState // what is known of the steps that began
	state State
	last  Result // of the latest event that moved the session to another state
}

// Begin takes over what is known of s, whose next event is the first that Of is given.
func (f *Facts) Begin(s *Session) {
	f.state, f.last = s.State, Result{Session: s.ID, Short: s.Short, State: s.State, Reason: s.Reason, Done: s.Done, Left: s.StepTotal - s.Done}
	f.at = map[StepID]*StepState{}
	for id, st := range s.Steps {
		f.at[id] = &StepState{Status: st.Status, StartedUS: st.StartedUS, Attempt: st.Attempt}
	}
}

// Of gives what the next event says; false: nothing that a person is told. data is what
// the payload of e decodes to, but for redaction, where the caller has it, else nil. It
// returns ErrCorrupt for a payload that cannot be read.
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
	case StepStarted:
		d, ok := data.(StepStartedData)
		if !ok {
			err = e.Decode(&d)
		}
		f.at[d.StepID] = &StepState{Status: InProgress, Attempt: d.Attempt, StartedUS: e.TimeUS}
		if d.Kind != KindApprove { // the question was told
			n = Notice{Kind: NoticeStarted, Item: f.item(d.StepID, InProgress)}
		}
	case StepCompleted:
		d, ok := data.(StepCompletedData)
		if !ok {
			err = e.Decode(&d)
		}
		f.last.Done, f.last.Left = f.last.Done+1, f.last.Left-1
		n = Notice{Kind: NoticeCompleted, Took: f.took(e, d.StepID, d.EndedUS), Item: f.item(d.StepID, StepDone)}
		if d.Capture != nil && !d.Capture.Blob.Sealed && f.Value != nil {
			n.Text = f.Value(d.Capture)
		}
		switch {
		case n.Item.Kind == KindApprove:
			n.Text = "approved"
		case d.By == "person":
			n.Detail = []string{"a person declared it done"}
		}
	case StepFailedEvent:
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
	case StepUnknown:
		var d StepUnknownData
		err = e.Decode(&d)
		n = Notice{Kind: NoticeUncertain, Item: f.item(d.StepID, StepUncertain), Text: d.Why}
		if d.Command != nil {
			n.Detail = d.Command.Left
		}
	case ApprovalRequested:
		var d ApprovalRequestedData
		err = e.Decode(&d)
		f.ask(d)
		gate := f.gate(d)
		it := f.item(d.StepID, f.status(d.StepID))
		if it.Task > 0 { // else the plan does not know it, which a verification says
			step := f.Plan.Tasks[it.Task-1].Steps[it.Step-1]
			step.Approve = d.Question
			it.Label = f.shown(step.Label())
			f.known[d.StepID] = *it // the answer is to that
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

// State is that of the session after the last event.
func (f *Facts) State() State { return f.state }

// Result is how the session stands after the last event, for those who meet it with no
// process that executes it.
func (f *Facts) Result() Result {
	r := f.last
	switch f.state {
	case AwaitingApproval:
		r.Code, r.Message = ErrApproval, "the session waits for approval"
	case Created, Planning, Executing:
		r.Signal, r.Message = killed, "the process that executed it ended without a word"
	}
	return r
}

// killed is the number of SIGKILL, whose status a shell gives for a process that ended
// without a word.
const killed = 9

// moved takes up another state. A session that goes to rest has come to a result.
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

// next is what continues the session after d.
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

// ask gives a gate the label of the question that was asked, in which values are filled
// in.
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

// gate describes a question, with the steps that a yes lets happen: those that are not
// done.
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

func (f *Facts) status(id StepID) Status {
	if st := f.at[id]; st != nil {
		return st.Status
	}
	return Pending
}

// item describes a step, which has status from now on.
func (f *Facts) item(id StepID, status Status) *Item {
	if f.known == nil {
		f.known = map[StepID]Item{}
		for _, it := range f.Items {
			f.known[it.ID] = it
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

// took is how long the attempt that e ends took, by the clock of the journal.
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

package session

// Approval is the latest question of an approve step, or about a call of a model or of an
// outside agent, and its answer.
type Approval struct {
	Digest string `json:"digest"`
	// Op names the call, Offer is the rule that a yes may add, and Asked is the seq of the
	// question. All are zero for an approve step.
	Op    string `json:"op,omitempty"`
	Offer string `json:"offer,omitempty"`
	Asked uint64 `json:"asked,omitempty"`
	// Call is the digest of the call of an outside agent.
	Call string `json:"call,omitempty"`
	// Answer is "", "granted" or "denied".
	Answer string `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	For    uint64 `json:"for_epoch,omitempty"`
}

// Valid reports whether a holds a yes that can be used in an epoch.
func (a Approval) Valid(epoch uint64) bool { return a.Answer == "granted" && a.For == epoch }

// Lapsed reports whether a holds a yes for an epoch before this one. Such a yes cannot be
// used any more. A person can give it again after acode asks the question again.
func (a Approval) Lapsed(epoch uint64) bool { return a.Answer == "granted" && a.For < epoch }

// Answered returns the events that record r, an answer to a question of s. The events
// belong to epoch: the epoch of the process that executes s, or the next one if no
// process does. If an earlier yes was not used in its epoch, or a person denied a call
// of an outside agent, Answered asks the question again, as again words it, before it
// records the new yes. It returns nil if r does not fit, because the question has
// changed or is already answered. A no can follow a yes; a yes needs an open question
// (NFR-012).
func (s *Session) Answered(r Request, epoch uint64, again ApprovalRequestedData) []Draft {
	st := s.Steps[r.Step.Of()]
	if st == nil || st.Approval == nil || st.Approval.Digest != r.Digest || st.Status == StepDone {
		return nil
	}
	id := r.Step.Of()
	id.Op = st.Approval.Op
	again.StepID, again.Digest, again.Call, again.Offer = id, r.Digest, st.Approval.Call, st.Approval.Offer
	grant := Draft{Type: ApprovalGranted, Actor: "user", Data: ApprovalGrantedData{StepID: id, Digest: r.Digest, By: r.By, For: epoch, Scope: r.Scope}}
	switch asked := st.Approval; {
	case r.Kind == RequestDeny && asked.Answer != "denied":
		return []Draft{{Type: ApprovalDenied, Actor: "user", Data: ApprovalDeniedData{StepID: id, Digest: r.Digest, By: r.By, Reason: r.Reason}}}
	case r.Kind != RequestApprove || st.LastSeq != r.Asked || r.Scope != "" && st.Approval.Offer == "":
		return nil
	case asked.Answer != "" && again.Question == "": // its step asks again by itself
		return nil
	case asked.Lapsed(epoch) || asked.Answer == "denied" && asked.Op != "" && st.Talk == nil:
		return []Draft{{Type: ApprovalRequested, Data: again}, grant}
	case asked.Answer == "":
		return []Draft{grant}
	}
	return nil
}

func (s *Session) requested(e Event, d ApprovalRequestedData) (Delta, error) {
	st := s.step(d.Of())
	if st.Status == StepDone {
		return Delta{}, conflict(e, "%s asks about %s, which is done", e.Type, d.StepID)
	}
	if d.Op != "" && (s.Ops[d.StepID] != nil || !s.nextCall(d.StepID)) {
		return Delta{}, conflict(e, "%s asks about %s, which is not a next call", e.Type, d.StepID)
	}
	if a := st.Approval; d.Op != "" && st.Talk == nil && a != nil && a.Call != d.Call && a.Valid(s.Epoch) {
		return Delta{}, conflict(e, "%s asks about %s, but the yes to %s is not used yet", e.Type, d.StepID, a.Op)
	}
	st.Approval, st.LastSeq = &Approval{Digest: d.Digest}, e.Seq
	if d.Op != "" {
		st.Approval.Op, st.Approval.Offer, st.Approval.Asked, st.Approval.Call = d.Op, d.Offer, e.Seq, d.Call
	}
	return Delta{Steps: []StepID{d.Of()}}, nil
}

func (s *Session) granted(e Event, d ApprovalGrantedData) (Delta, error) {
	st, err := s.asked(e, d.StepID, d.Digest)
	if err != nil {
		return Delta{}, err
	}
	if st.Approval.Answer != "" { // A no can follow a yes. A yes needs an open question.
		return Delta{}, conflict(e, "the question about %s is answered already: %s", d.StepID, st.Approval.Answer)
	}
	st.Approval.Answer, st.Approval.By, st.Approval.For = "granted", d.By, d.For
	if d.Scope != "" {
		if st.Approval.Offer == "" {
			return Delta{}, conflict(e, "the question about %s offers no rule", d.StepID)
		}
		s.Rules += st.Approval.Offer + "\n"
		if st.Talk == nil { // the rule allows the call when the agent makes it again
			st.Approval = nil
		}
	}
	return Delta{Steps: []StepID{d.Of()}, Scalars: d.Scope != ""}, nil
}

func (s *Session) denied(e Event, d ApprovalDeniedData) (Delta, error) {
	st, err := s.asked(e, d.StepID, d.Digest)
	if err != nil {
		return Delta{}, err
	}
	st.Approval.Answer, st.Approval.By, st.Approval.Reason = "denied", d.By, d.Reason
	return Delta{Steps: []StepID{d.Of()}}, nil
}

// usesApproval uses the yes that the intent of a call names, and removes the question
// about the call. A yes is valid once, in its own epoch. The call of a model is that of
// the question; an agent makes its call again under another name.
func (s *Session) usesApproval(e Event, d StepStartedData) (used bool, err error) {
	a := s.question(d.StepID)
	if a != nil && a.Answer == "denied" {
		return false, conflict(e, "%s was denied and cannot start", d.StepID)
	}
	if d.Approval == "" {
		return s.uses(d.StepID), nil
	}
	st := s.Steps[d.Of()]
	if a == nil && st != nil && st.Talk == nil {
		a = st.Approval
	}
	if d.Op == "" || a == nil || a.Op == "" || a.Digest != d.Approval || !a.Valid(s.Epoch) {
		return false, conflict(e, "%s uses an approval that is not there: %s", d.StepID, d.Approval)
	}
	st.Approval = nil
	return true, nil
}

// uses removes the question about a call, because its answer is valid once. It reports
// whether there was one.
func (s *Session) uses(call StepID) bool {
	if s.question(call) == nil {
		return false
	}
	s.Steps[call.Of()].Approval = nil
	return true
}

// question returns the question about a call; nil if there is none.
func (s *Session) question(call StepID) *Approval {
	st := s.Steps[call.Of()]
	if call.Op == "" || st == nil || st.Approval == nil || st.Approval.Op != call.Op {
		return nil
	}
	return st.Approval
}

// asked returns the step whose open question has this digest. An answer never fits
// another question (NFR-012).
func (s *Session) asked(e Event, id StepID, digest string) (*StepState, error) {
	st := s.Steps[id.Of()]
	if st == nil || st.Approval == nil || st.Approval.Op != id.Op || st.Approval.Digest != digest || st.Status == StepDone {
		return nil, conflict(e, "%s answers a question about %s that is not open", e.Type, id)
	}
	st.LastSeq = e.Seq
	return st, nil
}

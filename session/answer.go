package session

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
	again.StepID, again.Digest = id, r.Digest
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

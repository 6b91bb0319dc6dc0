package session

// Answered returns the events that record r, an answer to a question of s. The events
// belong to epoch: the epoch of the process that executes s, or the next one if no
// process does. If an earlier yes was not used in its epoch, Answered asks question again
// before it records the new yes. It returns nil if r does not fit, because the question
// has changed or is already answered. A no can follow a yes; a yes needs an open question
// (NFR-012).
func (s *Session) Answered(r Request, epoch uint64, question string) []Draft {
	st := s.Steps[r.Step]
	if st == nil || st.Approval == nil || st.Approval.Digest != r.Digest || st.Status == StepDone {
		return nil
	}
	grant := Draft{Type: ApprovalGranted, Actor: "user", Data: ApprovalGrantedData{StepID: r.Step, Digest: r.Digest, By: r.By, For: epoch}}
	switch asked := st.Approval; {
	case r.Kind == RequestDeny && asked.Answer != "denied":
		return []Draft{{Type: ApprovalDenied, Actor: "user", Data: ApprovalDeniedData{StepID: r.Step, Digest: r.Digest, By: r.By, Reason: r.Reason}}}
	case r.Kind != RequestApprove || st.LastSeq != r.Asked:
		return nil
	case asked.Lapsed(epoch):
		return []Draft{{Type: ApprovalRequested, Data: ApprovalRequestedData{StepID: r.Step, Question: question, Digest: r.Digest}}, grant}
	case asked.Answer == "":
		return []Draft{grant}
	}
	return nil
}

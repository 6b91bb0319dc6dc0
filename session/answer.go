package session

// Answered gives the events by which r, an answer to a question of s, takes effect in
// epoch: that of the process that executes s, or the next one where no process does.
// question is asked again where a yes was not used in its epoch. It gives none where r no
// longer fits: it was of another question, or that one is answered. A no can follow a
// yes; a yes needs a question that is open (NFR-012).
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

package session

import "slices"

// The kinds of a Guarded path.
const (
	GuardAbsent    = "absent"
	GuardFile      = "file"
	GuardLink      = "link"
	GuardDirectory = "directory"
	// a device, a socket or a FIFO
	GuardOther = "other"
	// the path "." of this kind says that some directories were not looked at
	GuardUnchecked = "unchecked"
)

// Guarded is the state of a path that other programs execute or trust.
type Guarded struct {
	Path string `json:"path" redact:"-"`
	Kind string `json:"kind" redact:"-"`
	// Mode holds the permission bits. It is 0 for a link.
	Mode uint32 `json:"mode,omitempty"`
	Size int64  `json:"size,omitempty"`
	// Hash is the SHA-256 of a file in hex. It is empty for a file that cannot be read.
	Hash string `json:"hash,omitempty" redact:"-"`
	// Target is where a link leads.
	Target string `json:"target,omitempty" redact:"-"`
	// Under is the directory that holds the protected name. If it is gone, so is the
	// protection of what was in it.
	Under string `json:"under,omitempty" redact:"-"`
	// Blob has the content of a file. It is zero if the content is not kept.
	Blob BlobRef `json:"blob,omitzero"`
}

// Same reports whether g and o are equal for the programs that trust the path.
func (g Guarded) Same(o Guarded) bool {
	return g.Kind == o.Kind && g.Mode == o.Mode && g.Hash == o.Hash && g.Target == o.Target
}

// HeldChange is a change of a protected path that a command made and acode put back. Its
// Guarded is what the command left there, which an approval puts there again.
type HeldChange struct {
	Guarded
	// Change is FileCreated, FileModified or FileDeleted.
	Change string `json:"change" redact:"-"`
	// Stays says that acode could not put the change back.
	Stays bool `json:"stays,omitempty"`
}

// ChangesHeldData records changes of protected paths before acode puts them back. They
// wait for a person.
type ChangesHeldData struct {
	StepID
	Key  string       `json:"key" redact:"-"`
	Held []HeldChange `json:"held"`
}

// HeldDecidedData is the answer of a person to held changes of a step.
type HeldDecidedData struct {
	StepID
	// Seqs are those of the events ChangesHeld.
	Seqs []uint64 `json:"seqs"`
	// Answer is "applied" or "dropped".
	Answer string `json:"answer" redact:"-"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// held notes that changes wait for a person.
func (s *Session) held(e Event, d ChangesHeldData) (Delta, error) {
	st := s.Steps[d.Of()]
	if d.Op == "" || st == nil || st.Status != InProgress {
		return Delta{}, conflict(e, "%s does not belong to %s", e.Type, d.StepID)
	}
	st.Held, st.LastSeq = append(slices.Clip(st.Held), e.Seq), e.Seq
	return Delta{Steps: []StepID{d.Of()}}, nil
}

func (s *Session) heldDecided(e Event, d HeldDecidedData) (Delta, error) {
	st := s.Steps[d.Of()]
	if st == nil {
		return Delta{}, conflict(e, "%s does not belong to %s", e.Type, d.StepID)
	}
	for _, seq := range d.Seqs {
		if !slices.Contains(st.Held, seq) {
			return Delta{}, conflict(e, "%s answers event %d, which does not wait", e.Type, seq)
		}
		st.Held = slices.DeleteFunc(slices.Clone(st.Held), func(held uint64) bool { return held == seq })
	}
	if st.Status != StepDone { // then it is the seq of its receipt
		st.LastSeq = e.Seq
	}
	if len(st.Held) == 0 {
		st.Held = nil
	}
	return Delta{Steps: []StepID{d.Of()}}, nil
}

package session

import "encoding/binary"

// Checkpoint is the constant-size proof of a session's state after a receipt: from it,
// and from the events above it, a resume starts (FR-009, FR-015).
type Checkpoint struct {
	Session ID
	// of the event that it was committed with
	Seq uint64
	// the step that the receipt ended; zero for an extra checkpoint
	Cursor StepID
	State  State
	Epoch  uint64
	// keyed digest of all step rows
	Steps Hash
	// keyed digest of all file rows: the manifest root
	Files Hash
	Plan  string
	// hash of the event at Seq
	Head Hash
	// which key signed it
	KeyID string
	HMAC  Hash
}

// checkpointDomain separates checkpoint HMACs from every other use of the key.
const checkpointDomain = "acode-checkpoint-v1\x00"

// Signed gives the bytes that HMAC covers: every field but HMAC itself.
func (c Checkpoint) Signed() []byte {
	b := append([]byte(nil), checkpointDomain...)
	for _, s := range []string{string(c.Session), c.Cursor.Task, c.Cursor.Step, string(c.State), c.Plan, c.KeyID} {
		b = appendText(b, s)
	}
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = append(b, c.Steps[:]...)
	b = append(b, c.Files[:]...)
	return append(b, c.Head[:]...)
}

// Commit is the signed summary of the newest commit of a session: it stands in the
// session's row and, as a copy, outside the database, so that a store that lost its end
// is known.
type Commit struct {
	Session ID
	LastSeq uint64
	Head    Hash
	Epoch   uint64
	// keyed digest of the session's own row
	Row Hash
	// as in Checkpoint, now
	Steps Hash
	// as in Checkpoint, now
	Files Hash
	KeyID string
	HMAC  Hash
}

const commitDomain = "acode-commit-v1\x00"

// Signed gives the bytes that HMAC covers.
func (c Commit) Signed() []byte {
	b := append([]byte(nil), commitDomain...)
	b = appendText(b, string(c.Session))
	b = appendText(b, c.KeyID)
	b = binary.BigEndian.AppendUint64(b, c.LastSeq)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	for _, h := range []Hash{c.Head, c.Row, c.Steps, c.Files} {
		b = append(b, h[:]...)
	}
	return b
}

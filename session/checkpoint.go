package session

import "encoding/binary"

// Checkpoint proves the state of a session after a receipt and has a constant size. A
// resume starts from it and applies the events above Seq (FR-009, FR-015).
type Checkpoint struct {
	Session ID
	// Seq is that of the event in the same commit.
	Seq uint64
	// Cursor is the step or the operation of the receipt; it is zero for an extra
	// checkpoint.
	Cursor StepID
	State  State
	Epoch  uint64
	// Steps is the keyed digest of all step rows.
	Steps Hash
	// Files is the keyed digest of all file rows, the root of the manifest.
	Files Hash
	Plan  string
	// Head is the hash of the event at Seq.
	Head Hash
	// KeyID names the key of HMAC.
	KeyID string
	HMAC  Hash
}

// checkpointDomain separates checkpoint HMACs from every other use of the key.
const checkpointDomain = "acode-checkpoint-v1\x00"

// Signed returns the bytes that HMAC covers: every field except HMAC.
func (c Checkpoint) Signed() []byte {
	b := append([]byte(nil), checkpointDomain...)
	for _, s := range []string{string(c.Session), c.Cursor.Task, c.Cursor.Step, c.Cursor.Op, string(c.State), c.Plan, c.KeyID} {
		b = appendText(b, s)
	}
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = append(b, c.Steps[:]...)
	b = append(b, c.Files[:]...)
	return append(b, c.Head[:]...)
}

// Commit is the signed summary of the newest commit of a session. The session's row holds
// it, and a copy lies outside the database. The copy shows when a store has lost its
// latest commits.
type Commit struct {
	Session ID
	LastSeq uint64
	Head    Hash
	Epoch   uint64
	// Row is the keyed digest of the session's own row.
	Row Hash
	// Steps and Files are as in Checkpoint, at LastSeq.
	Steps Hash
	Files Hash
	KeyID string
	HMAC  Hash
}

const commitDomain = "acode-commit-v1\x00"

// Signed returns the bytes that HMAC covers: every field except HMAC.
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

package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"github.com/acode-dev/acode/session"
)

// A checkpoint is stored in the row of its event. It leaves out its epoch and head, which
// the event has. It leaves out its cursor if that is the step of the payload. There is a
// checkpoint for every step, so it also leaves out the usual state and key id, and the
// plan, which differs only while the plan is made.

const (
	// The digest of files is not zero and follows.
	checkpointFiles = 1 << iota
	// The state, task, step, operation, key id and plan are not the usual ones and follow.
	checkpointTexts
)

// encodeCheckpoint returns the bytes of c. usual says that the payload of the same row
// names the step of the cursor.
func encodeCheckpoint(c session.Checkpoint, keyID string, usual bool) []byte {
	b := make([]byte, 1, 1+3*len(c.HMAC))
	b = append(append(b, c.HMAC[:]...), c.Steps[:]...)
	if c.Files != (session.Hash{}) {
		b[0] |= checkpointFiles
		b = append(b, c.Files[:]...)
	}
	if !usual || c.State != session.Executing || c.KeyID != keyID {
		b[0] |= checkpointTexts
		b = texts(b, string(c.State), c.Cursor.Task, c.Cursor.Step, c.Cursor.Op, c.KeyID, c.Plan)
	}
	return b
}

// decodeCheckpoint fills c from b and from the payload of the same row.
func decodeCheckpoint(c *session.Checkpoint, b, payload []byte, keyID string) error {
	if len(b) < 1+2*len(c.HMAC) || b[0] > checkpointFiles|checkpointTexts {
		return errors.New("not a checkpoint")
	}
	flags := b[0]
	b = b[1:]
	take := func(h *session.Hash) { b = b[copy(h[:], b):] }
	take(&c.HMAC)
	take(&c.Steps)
	if flags&checkpointFiles != 0 {
		if len(b) < len(c.Files) {
			return errors.New("not a checkpoint: it ends in its files")
		}
		take(&c.Files)
	}
	if flags&checkpointTexts != 0 {
		return decodeCheckpointTexts(c, b)
	}
	if len(b) > 0 {
		return errors.New("not a checkpoint: it has more bytes than fields")
	}
	c.State, c.KeyID = session.Executing, keyID
	return json.Unmarshal(payload, &c.Cursor)
}

func decodeCheckpointTexts(c *session.Checkpoint, b []byte) error {
	var state string
	for _, dst := range []*string{&state, &c.Cursor.Task, &c.Cursor.Step, &c.Cursor.Op, &c.KeyID, &c.Plan} {
		if len(b) < 4 || uint64(len(b)) < 4+uint64(binary.BigEndian.Uint32(b)) {
			return errors.New("not a checkpoint: it ends in a text")
		}
		n := 4 + int(binary.BigEndian.Uint32(b))
		*dst, b = string(b[4:n]), b[n:]
	}
	if len(b) > 0 {
		return errors.New("not a checkpoint: it has more bytes than fields")
	}
	c.State = session.State(state)
	return nil
}

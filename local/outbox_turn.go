package local

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
)

const (
	// readFence gives the store's clock and what the session is now. Where this connection was
	// the last one to commit events, it knows the clock itself: whoever else commits them takes
	// the turn, and drainers commit often, so that looking at all sessions would cost each step
	// of a session more the more sessions there are.
	readFence = `SELECT CASE WHEN (SELECT turn FROM sync) = nullif(?, 0) THEN ? ELSE (SELECT max(last_us) FROM sessions) END, epoch, last_seq, head
		FROM sessions WHERE no = ?`

	insertOutbox = `INSERT OR IGNORE INTO outbox (session_no) VALUES (?)`
	updateTurn   = `UPDATE sync SET turn = ?1 WHERE turn <> ?1`
)

// takePart puts the session into the outbox, from which a drainer may have taken it, and takes
// the turn. Both change nothing where nobody else did.
func (b *batch) takePart(ctx context.Context) error {
	if err := b.c.exec(ctx, insertOutbox, b.no); err != nil {
		return err
	}
	if b.c.turn == 0 {
		var id [8]byte
		if _, err := rand.Read(id[:]); err != nil {
			return fmt.Errorf("make id: %w", err)
		}
		b.c.turn = int64(binary.BigEndian.Uint64(id[:])>>1 | 1)
	}
	return b.c.exec(ctx, updateTurn, b.c.turn)
}

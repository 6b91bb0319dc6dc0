package local

import "context"

const (
	// storeClock is the latest time of any session. It is that of the session to which events were
	// committed last, whose number is sync.turn: looking at all sessions would cost each step beside
	// other writers more the more sessions there are. A turn that names none has all looked at.
	storeClock = `coalesce((SELECT last_us FROM sessions WHERE no = (SELECT turn FROM sync)), (SELECT max(last_us) FROM sessions), 0)`

	// readFence gives the store's clock and what the session is now. No clock is behind the session's
	// own time, whatever somebody made of the turn.
	readFence = `SELECT max(last_us, ` + storeClock + `), epoch, last_seq, head FROM sessions WHERE no = ?`

	insertOutbox = `INSERT OR IGNORE INTO outbox (session_no) VALUES (?)`
	updateTurn   = `UPDATE sync SET turn = ?1 WHERE turn <> ?1`
)

// takePart puts the session into the outbox, from which a drainer may have taken it, and takes
// the turn. Both change nothing where nobody else did.
func (b *batch) takePart(ctx context.Context) error {
	if err := b.c.exec(ctx, insertOutbox, b.no); err != nil {
		return err
	}
	return b.c.exec(ctx, updateTurn, b.no)
}

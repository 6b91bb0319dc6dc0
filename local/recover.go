package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
)

// Recover makes one more attempt possible after Append failed for want of room: it gives the
// ballast back, opens the store anew and reads the session again, whose last commit may have
// happened all the same. Other writers of this store must be recovered too.
func (w *Writer) Recover(ctx context.Context) error {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	if w.broken == nil {
		return nil
	}
	if code := session.CodeOf(w.broken); code != session.ErrDiskFull {
		return w.broken
	}
	_ = os.Remove(filepath.Join(w.st.opts.Home, "ballast")) // gone already if another writer did so
	if err := w.st.reopen(ctx); err != nil {
		return err
	}
	epoch, seq := w.sess.Epoch, w.sess.LastSeq
	fresh := &loader{ctx: ctx, q: w.st.wr.link, k: w.st.keys, id: w.sess.ID}
	if err := fresh.run(w.st.opts.Home); err != nil {
		return err
	}
	if s := fresh.row.sess; s.Epoch > epoch || s.Epoch == epoch && s.LastSeq > seq {
		return fenced(s, s.Epoch, epoch)
	}
	*w.sess, w.sums, w.broken = *fresh.row.sess, fresh.sums, nil
	return nil
}

// reopen replaces the connection that writes. Closing the old one may fail like what made it
// unusable, which changes nothing.
func (s *Store) reopen(ctx context.Context) error {
	if s.wr != nil {
		_ = s.wr.close()
		s.wr = nil
	}
	wr, err := openWriteConn(s.opts.Home)
	if err != nil {
		return err
	}
	s.wr = wr
	// A log that finds no room in the database stays a log; only what could not be synced
	// would have to stop here.
	wr.settled = true
	if err := wr.restart(ctx); err != nil && !errors.Is(err, session.ErrDiskFull) {
		return err
	}
	row, err := readStoreRow(ctx, wr.link)
	if err != nil {
		return storeError("read store", err)
	}
	s.row = row
	return nil
}

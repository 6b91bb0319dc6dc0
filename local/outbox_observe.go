package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Sizes gives the bytes of the database and of the log beside it, 0 for one that is not there.
// The files are asked for by name: to open and close them would take SQLite's locks away.
func (s *Store) Sizes() (database, log int64, err error) {
	for suffix, size := range map[string]*int64{"": &database, "-wal": &log} {
		info, err := os.Stat(filepath.Join(s.opts.Home, databaseName) + suffix)
		if err == nil {
			*size = info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, storeError("look at the store's files", err)
		}
	}
	return database, log, nil
}

// Observer is told what an Outbox does to the database. What is nil is not called; a call must
// be quick, because a step may wait for its end.
type Observer struct {
	// Commit is told of each attempt to commit: how long it took, the wait for the lock in it,
	// and how often another writer had the lock.
	Commit func(took time.Duration, busy int, err error)

	// Checkpoint is told of each copying back of the log.
	Checkpoint func(took time.Duration, err error)
}

// Observe makes b learn what is done from now on.
func (o *Outbox) Observe(b Observer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.observer = b
}

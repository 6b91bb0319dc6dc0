package syncer

import (
	"os"
	"runtime/debug"
)

const (
	// baseMemory is the memory for a delivery, its batches and the events read ahead, and
	// about as much again for garbage.
	baseMemory = 20 << 20

	// laneMemory is the memory for one waiting session, which several lists hold at once.
	laneMemory = 2 << 10
)

// boundMemory limits the memory of this process, so that garbage is collected sooner. The
// process runs beside a session, and without a limit its heap would grow with the
// backlog. GOMEMLIMIT in the environment has priority.
func boundMemory(waiting int) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(baseMemory + laneMemory*int64(waiting))
	}
}

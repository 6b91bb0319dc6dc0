package syncer

import (
	"os"
	"runtime/debug"
)

const (
	// baseMemory is what a delivery needs with its batches and what is read ahead of
	// them, and about as much for garbage.
	baseMemory = 20 << 20

	// laneMemory is what a session that waits needs, which is listed in several places at
	// once.
	laneMemory = 2 << 10
)

// boundMemory has garbage collected sooner than it would be: the drainer runs beside a
// session all the time, and without a limit its heap would be the larger the longer a
// backlog is delivered. A limit that somebody set in the environment stays.
func boundMemory(waiting int) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(baseMemory + laneMemory*int64(waiting))
	}
}

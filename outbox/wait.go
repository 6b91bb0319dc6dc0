package outbox

import (
	"context"
	"time"
)

// wakeSlack is how far the wall clock may run ahead of a timer. A greater difference
// means that the machine slept: timers stop in a sleep, and the wall clock does not.
const wakeSlack = 5 * time.Second

// longestStep is how soon a long wait notices that the machine slept.
const longestStep = 5 * time.Second

// rest waits for d. It ends early if ctx ends, kick or wake delivers, or the machine
// slept; a nil channel never delivers. It counts by timers, so that a wall clock that
// steps back does not lengthen the wait (O4). It keeps the heartbeat fresh.
func (s *Syncer) rest(ctx context.Context, d time.Duration, kick, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for left := d; left > 0; {
		step := min(left, longestStep)
		before := s.wall()
		timer.Reset(step)
		select {
		case <-ctx.Done():
			return
		case <-kick:
			// the person who kicked reads the heartbeat
			s.hurry, s.beatAt = true, time.Time{}
			return
		case <-wake:
			return
		case <-timer.C:
		}
		left -= step
		if s.wall().Sub(before) > step+wakeSlack {
			s.hurry = true
			return
		}
		s.beatWhenDue(ctx)
	}
}

// wall returns the time without its monotonic reading, which would hide a sleep.
func (s *Syncer) wall() time.Time { return s.opts.Now().Round(0) }

func (s *Syncer) wallUS() int64 { return s.opts.Now().UnixMicro() }

// old reports whether t is zero, at least d ago, or in the future because a clock was set
// back.
func (s *Syncer) old(t time.Time, d time.Duration) bool {
	age := s.opts.Now().Sub(t)
	return t.IsZero() || age < 0 || age >= d
}

// since returns the time since t, by the monotonic clock if Now has one; never negative.
func (s *Syncer) since(t time.Time) time.Duration { return max(0, s.opts.Now().Sub(t)) }

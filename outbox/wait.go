package outbox

import (
	"context"
	"time"
)

// wakeSlack is how far the wall clock may run ahead of a timer before that is a sleep of
// the machine. Timers stand still in a sleep; the wall clock does not.
const wakeSlack = 5 * time.Second

// longestStep is how soon a long wait notices that the machine slept.
const longestStep = 5 * time.Second

// rest waits d, or until ctx ends, kick or wake has something, or the machine slept. A
// nil channel never has. It counts by timers, so that a wall clock that steps back
// lengthens nothing (O4), and keeps the heartbeat fresh.
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
			s.hurry, s.beatAt = true, time.Time{} // whoever asked looks at the heartbeat
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

// wall is the time without its monotonic reading, which would hide a sleep.
func (s *Syncer) wall() time.Time { return s.opts.Now().Round(0) }

func (s *Syncer) wallUS() int64 { return s.opts.Now().UnixMicro() }

// old reports whether t is zero, d ago or more, or in a future that a clock which was set
// back has made of it.
func (s *Syncer) old(t time.Time, d time.Duration) bool {
	age := s.opts.Now().Sub(t)
	return t.IsZero() || age < 0 || age >= d
}

// since is the time that passed, by the monotonic clock where Now has one; never
// negative.
func (s *Syncer) since(t time.Time) time.Duration { return max(0, s.opts.Now().Sub(t)) }

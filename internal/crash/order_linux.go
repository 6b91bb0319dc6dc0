package crash

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Ordered returns recorded calls in a possible order of their effects. The tracer records
// calls in the order of their ends, and another process may use a directory before the
// mkdir has ended. Ordered moves such a mkdir before that use.
func Ordered(calls []Call) []Call {
	calls = slices.Clone(calls)
	for i, c := range calls {
		if c.Kind != KindMkdir || !c.OK() {
			continue
		}
		inside := func(d Call) bool { return d.End > c.Begin && strings.HasPrefix(d.Path, c.Path+"/") }
		if j := slices.IndexFunc(calls[:i], inside); j >= 0 {
			c.End = calls[j].Begin
			copy(calls[j+1:i+1], calls[j:i])
			calls[j] = c
		}
	}
	return calls
}

// Precedes checks that the nth call that matches then begins after at least n calls that
// match first have ended. It also returns an error if no call matches then, because such
// a check shows nothing.
func Precedes(calls []Call, first, then func(Call) bool) error {
	return eachPreceded(calls, ends(calls, first), then)
}

// DurableBefore checks that the nth call that matches told begins after at least n calls
// that match write are durable. A write is durable after a sync of its file that began
// after the write and ended before told began. Like Precedes, DurableBefore returns an
// error if no call matches told. It does not cover the name of the file; images do.
func DurableBefore(calls []Call, write, told func(Call) bool) error {
	var durable []uint64
	for _, w := range calls {
		if !w.OK() || !write(w) {
			continue
		}
		if w.Kind == KindWrite && w.Flags&unix.O_DSYNC != 0 {
			durable = append(durable, w.End)
			continue
		}
		if end, ok := synced(calls, w); ok {
			durable = append(durable, end)
		}
	}
	return eachPreceded(calls, durable, told)
}

// synced returns the tick at which the first sync that covers a write ended.
func synced(calls []Call, w Call) (end uint64, ok bool) {
	for _, s := range calls {
		covers := s.Kind == KindSync && s.Inode == w.Inode || s.Kind == KindSyncAll
		if s.OK() && covers && s.Begin > w.End && (!ok || s.End < end) {
			end, ok = s.End, true
		}
	}
	return end, ok
}

func ends(calls []Call, match func(Call) bool) []uint64 {
	var at []uint64
	for _, c := range calls {
		if c.OK() && match(c) {
			at = append(at, c.End)
		}
	}
	return at
}

// eachPreceded compares the nth match with the number of ticks before it.
func eachPreceded(calls []Call, ticks []uint64, match func(Call) bool) error {
	n := 0
	for _, c := range calls {
		if c.Ending == Prevented || !match(c) {
			continue
		}
		n++
		before := 0
		for _, end := range ticks {
			if end < c.Begin {
				before++
			}
		}
		if before < n {
			return fmt.Errorf("order: only %d of the required earlier calls had ended before number %d: %v", before, n, c)
		}
	}
	if n == 0 {
		return fmt.Errorf("order: none of %d calls matches", len(calls))
	}
	return nil
}

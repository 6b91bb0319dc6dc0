package main

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// nanos reads the monotonic clock.
func nanos() int64 { return clock(unix.CLOCK_MONOTONIC).UnixNano() }

// now is the wall clock of the measured stores.
func now() time.Time { return clock(unix.CLOCK_REALTIME) }

func clock(id int32) time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("bench: a clock that every Linux has cannot be read: " + err.Error())
	}
	return time.Unix(ts.Sec, ts.Nsec)
}

// sample holds repeated measurements of one thing, in nanoseconds.
type sample []int64

// timed runs f and appends its duration.
func (s *sample) timed(f func() error) error {
	start := nanos()
	err := f()
	*s = append(*s, nanos()-start)
	return err
}

// at returns a quantile by the nearest rank.
func (s sample) at(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))])
}

func (s sample) median() float64 { return s.at(0.5) }
func (s sample) p95() float64    { return s.at(0.95) }

// String returns the median and the 95th percentile in milliseconds.
func (s sample) String() string {
	return fmt.Sprintf("%s / %s ms", number(s.median()/1e6), number(s.p95()/1e6))
}

// number formats v with three significant digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

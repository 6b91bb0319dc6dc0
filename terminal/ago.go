package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func comma(n int) string { return humanize.Comma(int64(n)) }

// took formats a duration: "40ms", "1.2s", "12s", "2m05s", "1h02m".
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1ms"
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 9950*time.Millisecond:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + "s"
	case d.Round(time.Second) < time.Minute:
		return fmt.Sprintf("%ds", d.Round(time.Second)/time.Second)
	}
	return elapsed(d)
}

// clock formats a running time: "0:05", "1:02:03".
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// elapsed formats a duration in whole seconds.
func elapsed(d time.Duration) string {
	switch s := int64(max(d, 0) / time.Second); {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
}

// agoShort formats an age for a line: "5 min ago".
func agoShort(now, then time.Time) string { return ago(now.Sub(then), " sec", " min", " h", " d") }

// ago formats an age in these units. A time in the future, for example after a step of
// the clock, gives "now".
func ago(age time.Duration, s, m, h, d string) string {
	n, unit := age/(24*time.Hour), d
	switch {
	case age < time.Second:
		return "now"
	case age < time.Minute:
		n, unit = age/time.Second, s
	case age < time.Hour:
		n, unit = age/time.Minute, m
	case age < 48*time.Hour:
		n, unit = age/time.Hour, h
	}
	return fmt.Sprintf("%d%s ago", n, unit)
}

// agoLong formats an age for a sentence: "10 minutes ago".
func agoLong(now, then time.Time) string {
	if !then.Before(now) {
		return "now"
	}
	return humanize.RelTime(then, now, "ago", "from now")
}

// Instant formats a time to the second. On a terminal it uses the local time zone,
// otherwise UTC.
func (p Page) Instant(us int64) string {
	if p.Local {
		return time.UnixMicro(us).Local().Format("2006-01-02 15:04:05")
	}
	return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05Z")
}

package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest wait that is passed on.
const longest = 365 * 24 * time.Hour

// wait returns how long a server asks to wait; 0 if it does not say. Servers write
// milliseconds, seconds or a date. Otherwise the time counts at which a used-up
// allowance is full again, if the server says that too much was asked.
func wait(answer *http.Response, now time.Time) time.Duration {
	h := answer.Header
	if n, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(n / 1000)
	}
	after := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(after, 64); err == nil {
		return span(n)
	}
	if at, err := http.ParseTime(after); err == nil {
		return until(at, now, h)
	}
	if answer.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	return reset(h, now)
}

// reset returns the longest wait for an allowance that has nothing left. If each has some
// left, it returns the shortest one.
func reset(h http.Header, now time.Time) time.Duration {
	var used, left time.Duration
	for name := range h {
		lower := strings.ToLower(name)
		if !strings.Contains(lower, "ratelimit") || !strings.Contains(lower, "reset") {
			continue
		}
		d := resetIn(h.Get(name), now, h)
		switch rest := h.Get(strings.Replace(lower, "reset", "remaining", 1)); {
		case d <= 0:
		case rest == "0":
			used = max(used, d)
		case left == 0 || d < left:
			left = d
		}
	}
	if used > 0 {
		return used
	}
	return left
}

// resetIn reads 6m0s, seconds, a date, or a time in seconds or milliseconds since 1970.
func resetIn(s string, now time.Time, h http.Header) time.Duration {
	s = strings.TrimSpace(s)
	if d, err := time.ParseDuration(s); err == nil {
		return min(d, longest)
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return until(at, now, h)
	}
	n, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return 0
	case n > 1e11:
		return until(time.UnixMilli(int64(min(n, 1e15))), now, h)
	case n > 1e9:
		return until(time.Unix(int64(n), 0), now, h)
	}
	return span(n)
}

// until returns the time until at, by the clock of the server if the answer has its time.
func until(at, now time.Time, h http.Header) time.Duration {
	if there, err := http.ParseTime(h.Get("Date")); err == nil {
		now = there
	}
	return min(max(at.Sub(now), 0), longest)
}

func span(seconds float64) time.Duration {
	if !(seconds > 0) { // also not a number
		return 0
	}
	return time.Duration(math.Min(seconds, longest.Seconds()) * float64(time.Second))
}

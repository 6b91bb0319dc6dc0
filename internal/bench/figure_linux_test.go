package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestQuantiles(t *testing.T) {
	var s sample
	for i := range 100 {
		s = append(s, int64(100-i))
	}
	if got := s.median(); got != 51 {
		t.Errorf("median: got %v, want 51", got)
	}
	if got := s.p95(); got != 96 {
		t.Errorf("p95: got %v, want 96", got)
	}
	if got := (sample{7}).p95(); got != 7 {
		t.Errorf("p95 of one: got %v, want 7", got)
	}
}

// A missed limit is marked, by the median or only by the 95th percentile.
func TestMarks(t *testing.T) {
	var out bytes.Buffer
	var r report
	r.begin(&out)
	r.ratio("kept", sample{10}, sample{10}, 1)
	r.ratio("over", sample{21}, sample{10}, 2)
	r.ratio("late", append(sample{90}, make(sample, 9)...).plus(10), sample{10, 10}, 2)
	r.end(&out)
	for _, want := range []string{"| kept ", "| PASS ", "| over at p95 ", "3 rows, 1 with a median over the limit"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report: got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

func (s sample) plus(n int64) sample {
	for i := range s {
		s[i] += n
	}
	return s
}

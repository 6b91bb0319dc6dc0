package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// row is a line of the report.
type row struct {
	what, median, p95, limit, mark, detail string
}

// report is a Markdown table that docs/benchmarks.md includes unchanged.
type report struct {
	out        io.Writer
	rows, over int
}

func (r *report) begin(out io.Writer) {
	r.out = out
	fmt.Fprintf(out, "%s/%s, %d processors, %s\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	r.line(row{"what", "median", "p95", "at most", "", "measured"})
	r.line(row{"---", "--:", "--:", "--:", "---", "---"})
	r.rows = 0
}

func (r *report) line(l row) {
	r.rows++
	fmt.Fprintf(r.out, "| %-58s | %7s | %7s | %9s | %-11s | %s |\n", l.what, l.median, l.p95, l.limit, l.mark, l.detail)
}

// mark returns whether the figures keep a limit.
func (r *report) mark(median, p95, limit float64) string {
	switch {
	case median > limit:
		r.over++
		return "over"
	case p95 > limit:
		return "over at p95"
	}
	return "PASS"
}

// ratio prints a divided by b, and more details.
func (r *report) ratio(what string, a, b sample, limit float64, more ...string) {
	median, p95 := a.median()/b.median(), a.p95()/b.p95()
	detail := fmt.Sprintf("%s; %s; n=%d; of the quickest tenth %.2f", a, b, len(a), a.at(0.1)/b.at(0.1))
	r.line(row{what, fmt.Sprintf("%.2f", median), fmt.Sprintf("%.2f", p95), number(limit), r.mark(median, p95, limit),
		strings.Join(append([]string{detail}, more...), "; ")})
}

// count prints an exact figure, which has no distribution.
func (r *report) count(what string, value, limit float64, detail string) {
	r.line(row{what, number(value), "", number(limit), r.mark(value, value, limit), detail})
}

// times prints milliseconds beside a target and a maximum.
func (r *report) times(what string, s sample, target, most float64, detail string) {
	median, p95 := s.median()/1e6, s.p95()/1e6
	mark := r.mark(median, p95, most)
	if mark == "PASS" && p95 > target {
		mark = "PASS (max)"
	}
	r.line(row{what, number(median) + " ms", number(p95) + " ms", fmt.Sprintf("%s, %s ms", number(target), number(most)), mark, detail})
}

func (r *report) end(out io.Writer) {
	fmt.Fprintf(out, "\n%d rows, %d with a median over the limit\n", r.rows, r.over)
}

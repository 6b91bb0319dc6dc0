package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// A file close to the limits is not a bomb.
func TestParseWide(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\ntask: t\ntasks:\n- steps:\n  - run: x\n    env:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "      K%d: v\n", i)
	}
	for i := range 3000 {
		fmt.Fprintf(&b, "  - {run: x%d}\n", i)
	}
	for i := range 3000 {
		fmt.Fprintf(&b, "-\n    depends_on: ['1']\n    steps: [run: x%d]\n", i)
	}
	p, err := plan.Parse("plan.yml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Steps(); got != 6001 || len(p.Tasks[0].Steps[0].Run.Env) != 1000 {
		t.Errorf("Parse: got %d steps, want 6001", got)
	}
}

func hundredThousand() []byte {
	var b strings.Builder
	b.WriteString("version: 1\ntask: t\ntasks:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - id: task%d\n    depends_on: [%s]\n    steps:\n", i, before(i))
		for j := range 1000 {
			fmt.Fprintf(&b, "      - {id: s%d, write: {path: f%d.txt, content: \"x\"}}\n", j, j)
		}
	}
	return []byte(b.String())
}

func before(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf("task%d", i-1)
}

func BenchmarkParse100000(b *testing.B) {
	data := hundredThousand()
	b.ReportMetric(float64(len(data))/1e6, "MB-file")
	for b.Loop() {
		p, err := plan.Parse("plan.yml", data)
		if err != nil || p.Steps() != 100_000 {
			b.Fatalf("Parse: %v", err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/plan")
	b.ReportMetric(float64(m.Sys)/1e6, "MB-process")
}

// roundTrips checks a plan that Parse accepts. The plan is stored as JSON, so JSON must
// keep all of it, and it must have the properties of the package doc.
func roundTrips(p *session.Plan) error {
	stored, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var back session.Plan
	if err := json.Unmarshal(stored, &back); err != nil {
		return err
	}
	if diff := cmp.Diff(p, &back); diff != "" {
		return fmt.Errorf("JSON (-plan +back):\n%s", diff)
	}
	if order, cycle := p.Order(); len(order) != len(p.Tasks) {
		return fmt.Errorf("Order: got a cycle %v", cycle)
	}
	for _, t := range p.Tasks {
		for _, s := range t.Steps {
			if !session.ValidName(t.ID) || !session.ValidName(s.ID) || s.Label() == "" {
				return fmt.Errorf("got the step %s/%s labelled %q", t.ID, s.ID, s.Label())
			}
			for _, c := range s.Changes {
				for path := range strings.SplitSeq(c.Path+"/"+c.From+"/"+c.To, "/") {
					if path == ".." {
						return fmt.Errorf("got the change %+v", c)
					}
				}
			}
		}
	}
	return nil
}

// Parse returns for any text a valid plan or one error.
func FuzzParse(f *testing.F) {
	f.Add(hundredThousand()[:2000])
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Parse("plan.yml", data)
		if err != nil {
			if p != nil || !errors.Is(err, session.ErrPlan) {
				t.Fatalf("Parse: got %v and %v", p, err)
			}
			if r := plan.Check("plan.yml", data); len(r.Errors) == 0 {
				t.Fatalf("Check: got no error, want %v", err)
			}
			return
		}
		if r := plan.Check("plan.yml", data); len(r.Errors) > 0 {
			t.Fatalf("Check: got %v, want no error as of Parse", r.Errors)
		}
		if err := roundTrips(p); err != nil {
			t.Fatal(err)
		}
	})
}

// A plan that is written to a file and read again is unchanged, for texts with any
// characters.
func TestParseWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPlan(t)
		file := written(want)
		got, err := plan.Parse("plan.yml", file)
		if err != nil {
			t.Fatalf("Parse: %v\n%s", err, file)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("Parse (-want +got):\n%s\n%s", diff, file)
		}
		if err := roundTrips(got); err != nil {
			t.Fatal(err)
		}
	})
}

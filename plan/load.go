package plan

import (
	"os"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// MaxBytes is the size above which a plan file is refused before anything of it is
// parsed.
const MaxBytes = 16 << 20

// hint is the next step of an error that has no better one.
func hint() session.Hint {
	return session.Then("correct the plan file and run the command again; to see the format", session.MovePlanSchema, "")
}

func format() strictyaml.Format {
	return strictyaml.Format{Code: session.ErrPlan, Name: "plan", Bytes: MaxBytes, Next: hint(),
		Split: "keep large contents in files of the workspace and let a run step copy them, or split the plan", Path: "check the path"}
}

// largeBytes is where parsing begins to take longer than people wait without a word.
const largeBytes = 1 << 20

// Large reports whether a plan of size bytes takes seconds to check, so that the caller
// says what is being done.
func Large(size int64) bool { return size > largeBytes }

// Load reads and checks the plan file at path. It returns ErrPlan, with the place, when
// the file cannot be read or is not a plan.
func Load(path string) (*session.Plan, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads a file up to MaxBytes. It returns ErrPlan when that cannot be done.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, format().Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return format().ReadFile(f, path, false)
}

// Parse checks data, the content of the file called name. It returns ErrPlan, with the
// place, when data is not a plan.
func Parse(name string, data []byte) (*session.Plan, error) {
	d := &decoder{Reader: strictyaml.Reader{Format: format(), Name: name}}
	p := d.parse(data)
	return p, d.Err()
}

// decoder makes a plan of a file. After the first error the result is no plan.
type decoder struct {
	strictyaml.Reader
	// nil: no one asks where steps stand
	steps map[session.StepID]strictyaml.Position
	// bytes that defaults added to the steps
	added int
}

// parse reads the plan, which is nil where there are errors. What is no YAML has one
// error.
func (d *decoder) parse(data []byte) *session.Plan {
	body := d.Root(data)
	if body == nil && d.Err() == nil {
		d.Fail(strictyaml.Position{Line: 1, Column: 1}, "", "the plan file is empty")
	}
	if d.Err() != nil {
		return nil
	}
	if p := d.plan(body); d.Err() == nil {
		return p
	}
	return nil
}

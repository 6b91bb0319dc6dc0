package plan

import (
	"os"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/strictyaml"
)

// MaxBytes is the greatest size of a plan file. A larger file is refused before it is
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

// largeBytes is the size above which parsing takes noticeable time.
const largeBytes = 1 << 20

// Large reports whether a plan of size bytes takes seconds to check. The caller should
// then report progress.
func Large(size int64) bool { return size > largeBytes }

// Load reads and checks the plan file at path. It returns ErrPlan, with the place, if the
// file cannot be read or is not a plan.
func Load(path string) (*session.Plan, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// ReadFile reads a file up to MaxBytes. It returns ErrPlan if the file is larger or
// cannot be read.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, format().Unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // The file was only read.
	return format().ReadFile(f, path, false)
}

// Parse checks data, the content of the file called name. It returns ErrPlan, with the
// place, if data is not a plan.
func Parse(name string, data []byte) (*session.Plan, error) {
	d := &decoder{Reader: strictyaml.Reader{Format: format(), Name: name}}
	p := d.parse(data)
	return p, d.Err()
}

// decoder converts a file to a plan. After the first error its result must not be used.
type decoder struct {
	strictyaml.Reader
	// steps holds the positions of steps. It is nil if the caller does not need them.
	steps map[session.StepID]strictyaml.Position
	// added counts the bytes that defaults have added to the steps.
	added int
}

// parse returns the plan, or nil if there are errors. A file that is not YAML has one
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

package crash

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// output holds the files that receive the output of a run. Files in memory never block
// the program, never break like a pipe, and keep all output when the program dies.
type output struct{ stdin, stdout, stderr *os.File }

func newOutput(spec Spec) (output, error) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		return output{}, fmt.Errorf("open standard input: %w", err)
	}
	o := output{stdin: in}
	for name, f := range map[string]**os.File{"stdout": &o.stdout, "stderr": &o.stderr} {
		fd, err := unix.MemfdCreate("crash-"+name, unix.MFD_CLOEXEC)
		if err != nil {
			o.close()
			return output{}, fmt.Errorf("make %s: %w", name, err)
		}
		*f = os.NewFile(uintptr(fd), name)
	}
	return o, nil
}

func (o output) close() {
	for _, f := range []*os.File{o.stdin, o.stdout, o.stderr} {
		if f != nil {
			// The file is in memory, so no data can be lost.
			_ = f.Close()
		}
	}
}

// deliver copies the output to the writers of spec.
func (o output) deliver(spec Spec) error {
	for _, way := range []struct {
		from *os.File
		to   interface{ Write([]byte) (int, error) }
	}{{o.stdout, spec.Stdout}, {o.stderr, spec.Stderr}} {
		if way.to == nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", way.from.Fd()))
		if err == nil {
			_, err = way.to.Write(b)
		}
		if err != nil {
			return fmt.Errorf("deliver %s: %w", way.from.Name(), err)
		}
	}
	return nil
}

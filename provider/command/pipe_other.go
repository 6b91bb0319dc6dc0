//go:build !linux

package command

import (
	"os"

	"github.com/acode-dev/acode/session"
)

// of none
const pipeSuffix = "-pipe"

// sink is a file that the command itself writes to: this system has no splice(2), and
// whoever copied the bytes of a pipe would lose those that it had read when it was
// killed.
type sink struct {
	path string
	file *os.File
	end  int
}

func openSink(path string) (*sink, error) {
	f, err := openOutput(path, os.O_APPEND)
	if err != nil {
		return nil, err
	}
	return &sink{path: path, file: f, end: int(f.Fd())}, nil
}

func (s *sink) begin() {}

func (s *sink) drain() (lost int64, cause error) { return 0, nil }

// the command has its own
func (s *sink) close() { _ = s.file.Close() }

// standby does nothing: the command needs no one to carry what it writes.
type standby struct{}

func (standby) follow(string, session.CommandRecord) (again bool) { return false }
func (standby) finish() bool                                      { return false }
func (standby) close()                                            {}

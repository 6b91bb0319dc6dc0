//go:build !linux

package command

import (
	"os"

	"github.com/acode-dev/acode/session"
)

// There is no pipe on this system.
const pipeSuffix = "-pipe"

// sink is a file that the command itself writes to, because this system has no splice(2).
// A process that copied a pipe by reading and writing would lose bytes when it is killed.
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

// close closes only this process's copy: the command has its own.
func (s *sink) close() { _ = s.file.Close() }

// standby does nothing: the command needs no process to move its output.
type standby struct{}

func (standby) follow(string, session.CommandRecord) (again bool) { return false }
func (standby) finish() bool                                      { return false }
func (standby) close()                                            {}

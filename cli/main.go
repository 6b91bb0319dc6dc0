// Package cli is the command line: flags, wiring and exit status; everything else has a room
// of its own. Two programs are made of it, so that the one which carries out steps starts
// quickly and links neither PostgreSQL's driver nor metrics: acode, and acode-sync, which
// delivers to a server.
package cli

import (
	"context"
	"os"
	"syscall"
)

// version is set by the release build.
const version = "0.1.0-dev"

// Main carries out acode's command line and returns the exit status.
func Main(ctx context.Context, args []string) int {
	ownFiles()
	a := newApp()
	return a.carryOut(ctx, a.root(), args)
}

// stdio is where the process reads and writes.
type stdio struct {
	in  *os.File
	out *output
	err *os.File
}

// ownFiles lets this process use the files that it makes, whatever umask it was started with: a
// store whose directory may not be entered is one that nobody can use any more. What others may
// do stays as it was.
func ownFiles() { syscall.Umask(syscall.Umask(0o077) &^ 0o700) }

package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// keepInput replaces standard input by a file with its content. So it can be read several
// times, also by the program to which acode hands over.
func keepInput() ([]byte, error) {
	failed := func(err error) error {
		return &session.Error{Code: session.ErrUsage, Message: "standard input cannot be read; nothing was changed", Cause: err}
	}
	content, err := io.ReadAll(io.LimitReader(os.Stdin, plan.MaxBytes+1))
	if err != nil {
		return nil, failed(err)
	}
	f, err := os.CreateTemp("", "acode-input-")
	if err != nil {
		return nil, failed(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // It lies in a temporary directory.
	defer f.Close()           //nolint:errcheck // It is read through another descriptor.
	if _, err := f.Write(content); err != nil {
		return nil, failed(err)
	}
	if err := syscall.Close(0); err != nil {
		return nil, failed(err)
	}
	fd, err := syscall.Open(f.Name(), syscall.O_RDONLY, 0) // the lowest free descriptor, which the next program keeps
	if err != nil || fd != 0 {
		return nil, failed(err)
	}
	return content, nil
}

// inWords reports whether a text is a task in words. A plan begins with a key or a brace.
func inWords(text []byte) bool {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line == "---" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "%") {
			continue
		}
		key, _, found := strings.Cut(line, ":")
		return line[0] != '{' && !(found && session.ValidName(strings.Trim(key, `"'`)))
	}
	return false
}

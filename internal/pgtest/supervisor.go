package pgtest

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

//go:embed supervise.sh
var scripts embed.FS

// patience is the longest start or stop of a server on a busy machine.
const patience = 60 * time.Second

// supervisor is the process that starts a server. It outlives this process in order to
// end the server.
type supervisor struct {
	// root is the folder that is removed with the supervisor.
	root  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	lines *bufio.Reader
	// pid is the server's, or 0 while it does not run.
	pid    int
	closed bool
}

// supervise makes a folder for a server below parent and starts its supervisor. server
// returns the command line for that folder.
func supervise(acct *account, parent string, server func(root string) []string) (*supervisor, error) {
	script, err := scripts.ReadFile("supervise.sh")
	if err != nil {
		return nil, fmt.Errorf("supervise: %w", err)
	}
	root, err := makeRoot(acct, parent)
	if err != nil {
		return nil, err
	}
	cmd := acct.command("/bin/sh", append([]string{"-c", string(script), "supervise", root}, server(root)...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("supervise: %w", err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("supervise: %w", err)
	}
	cmd.Stdout = w
	err = cmd.Start()
	// The supervisor owns the other end.
	_ = w.Close()
	if err != nil {
		// The folder is empty.
		_ = os.RemoveAll(root)
		return nil, fmt.Errorf("supervise: %w", err)
	}
	return &supervisor{root: root, cmd: cmd, in: in, out: out, lines: bufio.NewReader(out)}, nil
}

// makeRoot makes an empty folder for the account directly below parent, because the path
// of a unix socket must be short. An empty parent means /tmp.
func makeRoot(acct *account, parent string) (string, error) {
	if parent == "" {
		parent = "/tmp"
	}
	root, err := os.MkdirTemp(parent, "pgtest-")
	if err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := acct.own(root); err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	return root, nil
}

// start starts the server and returns its pid.
func (v *supervisor) start() (int, error) {
	if v.pid != 0 {
		return 0, errors.New("start: the server runs")
	}
	if _, err := io.WriteString(v.in, "start\n"); err != nil {
		return 0, fmt.Errorf("ask the supervisor: %w", err)
	}
	pid, err := v.hear("pid ", patience)
	if err != nil {
		return 0, err
	}
	v.pid = pid
	return pid, nil
}

// wait waits until the server has ended, and returns its exit status as a shell reports
// it.
func (v *supervisor) wait(limit time.Duration) (int, error) {
	if v.pid == 0 {
		return 0, errors.New("wait: the server does not run")
	}
	status, err := v.hear("gone ", limit)
	if err == nil {
		v.pid = 0
	}
	return status, err
}

// hear reads a line that begins with word, and returns the number after it.
func (v *supervisor) hear(word string, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// The context has a deadline.
	at, _ := ctx.Deadline()
	if err := v.out.SetReadDeadline(at); err != nil {
		return 0, fmt.Errorf("hear the supervisor: %w", err)
	}
	line, err := v.lines.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("hear the supervisor: %w", err)
	}
	number, ok := strings.CutPrefix(strings.TrimSpace(line), word)
	if !ok {
		return 0, fmt.Errorf("hear the supervisor: got %q, want %q", line, word)
	}
	return strconv.Atoi(number)
}

// close ends the server, if it runs, and removes its files. It returns when both are
// gone.
func (v *supervisor) close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	// The supervisor waits for this close.
	_ = v.in.Close()
	err := v.cmd.Wait()
	// No process writes any more.
	_ = v.out.Close()
	if err != nil {
		return fmt.Errorf("end the supervisor: %w", err)
	}
	return nil
}

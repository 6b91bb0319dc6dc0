package script

import (
	"strings"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// screen holds the output that a person has seen so far.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// onTerminal runs a command on a terminal. Each line of the dialogue is "seen => typed".
// When the terminal shows seen after the previous match, onTerminal types typed and a
// return. ^INT sends that signal instead, ^EOF types Ctrl-D, and ! runs the rest as a
// shell command. stdout then holds the output of the terminal.
func onTerminal(ts *testscript.TestScript, args []string) {
	cmd := prepare(ts, args[2:])
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "CI=")
	ctrl, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	ts.Check(err)
	s := &started{cmd: cmd, done: make(chan struct{})}
	ts.Defer(func() {
		// The process may have ended.
		_ = cmd.Process.Kill()
		<-s.done
		_ = ctrl.Close()
	})
	var shown screen
	read := make(chan struct{})
	go func() {
		defer close(read)
		copyUntilHangUp(&shown, ctrl)
	}()
	go func() {
		s.end = cmd.Wait()
		close(s.done)
	}()
	talk(ts, s, &shown, ctrl, ts.ReadFile(args[1]))
	Until(ts, "wait for the end of "+strings.Join(args[2:], " ")+":\n"+shown.String(), s.ended)
	<-read
	// Writing to a buffer cannot fail.
	_, _ = ts.Stdout().Write([]byte(strings.ReplaceAll(shown.String(), "\r\n", "\n")))
	wantStatus(ts, args[0], args[2:], s.end)
}

func (s *started) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func talk(ts *testscript.TestScript, s *started, shown *screen, ctrl interface{ Write([]byte) (int, error) }, dialogue string) {
	at := 0
	for _, l := range strings.Split(strings.TrimSpace(dialogue), "\n") {
		seen, typed, ok := strings.Cut(l, " => ")
		if !ok {
			continue
		}
		Until(ts, "wait for "+seen, func() bool {
			i := strings.Index(shown.String()[at:], seen)
			if i < 0 && s.ended() {
				ts.Fatalf("%q was never shown:\n%s", seen, shown)
			}
			at += max(i, 0)
			return i >= 0
		})
		at += len(seen)
		if typed == "^EOF" {
			_, err := ctrl.Write([]byte{4})
			ts.Check(err)
			continue
		}
		if name, ok := strings.CutPrefix(typed, "^"); ok {
			ts.Check(s.cmd.Process.Signal(map[string]syscall.Signal{"INT": syscall.SIGINT}[name]))
			continue
		}
		if line, ok := strings.CutPrefix(typed, "!"); ok {
			ts.Check(ts.Exec("sh", "-c", line))
			continue
		}
		_, err := ctrl.Write([]byte(typed + "\n"))
		ts.Check(err)
	}
}

// copyUntilHangUp reads until the other end is closed. Linux reports this as an error.
func copyUntilHangUp(to *screen, from interface{ Read([]byte) (int, error) }) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		// Writing to a buffer cannot fail.
		_, _ = to.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

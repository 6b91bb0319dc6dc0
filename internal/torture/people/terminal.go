package people

import (
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/creack/pty"
)

// dialogue is a person at the terminal of one process who answers its questions. Its
// fields may be read after the process has ended.
type dialogue struct {
	scenario *Scenario
	screen   io.ReadWriteCloser
	// says is the answer to an open question: yes or no.
	says string
	// saw is all output of the terminal.
	saw string
	// yes counts the answers to open questions.
	yes int
	// told lists the steps whose outcome the person reported.
	told []string
}

// beginOnTerminal starts acode with args on its own terminal. A person there answers open
// questions with says, and otherwise lets acode continue.
func (s *Scenario) beginOnTerminal(ctx context.Context, args []string, says string) *typed {
	t := &typed{args: args, cmd: s.command(ctx, args...), done: make(chan struct{})}
	t.cmd.Env = append(t.cmd.Env, "TERM=xterm-256color")
	screen, err := pty.StartWithSize(t.cmd, &pty.Winsize{Rows: 50, Cols: 400})
	if t.failed = err; err != nil {
		close(t.done)
		return t
	}
	t.person = &dialogue{scenario: s, screen: screen, says: says}
	talked := make(chan struct{})
	go func() {
		defer close(talked)
		t.person.talk(ctx)
	}()
	go func() {
		defer close(t.done)
		t.failed = t.cmd.Wait()
		// The terminal hangs up with its last process.
		<-talked
		_ = screen.Close()
		t.out.WriteString(strings.ReplaceAll(t.person.saw, "\r\n", "\n"))
	}()
	return t
}

// talk reads the terminal until it hangs up, and answers each question as soon as it
// appears.
func (d *dialogue) talk(ctx context.Context) {
	b := make([]byte, 4096)
	for {
		n, err := d.screen.Read(b)
		d.saw += string(b[:n])
		if answer := d.answer(ctx); answer != "" {
			// The process may have ended.
			_, _ = io.WriteString(d.screen, answer+"\n")
		}
		if err != nil {
			// EIO means that no process has the terminal any more.
			return
		}
	}
}

// doubted matches acode's question about a step with an unknown outcome.
var doubted = regexp.MustCompile(`Nobody can know whether (\S+) \(`)

// answer returns the person's next input, or "" without a question.
func (d *dialogue) answer(ctx context.Context) string {
	asks := func(end string) bool { return strings.HasSuffix(d.saw, end+" ") }
	switch {
	case asks("[Y/n]"):
		return "y"
	case asks("[1]"):
		return "1"
	case asks("[yes/no]"):
		if d.says == "yes" {
			d.yes++
		}
		return d.says
	case !asks("Choice:"):
		return ""
	case strings.LastIndex(d.saw, "[C]ontinue") > strings.LastIndex(d.saw, "[R]erun"):
		return "c"
	}
	all := doubted.FindAllStringSubmatch(d.saw, -1)
	if len(all) == 0 {
		return "l"
	}
	name := all[len(all)-1][1]
	d.told = append(d.told, name)
	if verdict, err := d.scenario.verdict(ctx, name); err == nil && verdict != "" {
		return verdict[:1]
	}
	return "l"
}

// verdict returns the true outcome of a step's command with an unknown outcome.
func (s *Scenario) verdict(ctx context.Context, name string) (string, error) {
	j, err := s.readJournal(ctx)
	if err != nil {
		return "", err
	}
	ledger, err := os.ReadFile(s.Ledger())
	if err != nil {
		return "", err
	}
	return j.verdict(name, attempts(string(ledger))), nil
}

// verdict returns the true outcome of the last attempt with an unknown outcome of a step,
// or "" if there is none.
func (j journal) verdict(name string, acted map[string][]int) string {
	for _, e := range slices.Backward(j.events) {
		if e.kind != "StepUnknown" || e.step != name {
			continue
		}
		if slices.Contains(acted[name], e.attempt) {
			return "done"
		}
		return "rerun"
	}
	return ""
}

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

// dialogue is a person at the terminal of one process, who answers what it asks. Its
// fields are read when that has ended.
type dialogue struct {
	scenario *Scenario
	screen   io.ReadWriteCloser
	// to an open question: yes or no
	says string
	// all that the terminal showed
	saw string
	// how often that was said to an open question
	yes int
	// steps of which the person said what became of them
	told []string
}

// beginOnTerminal starts acode with args on a terminal of its own, with somebody who says
// yes or no to open questions, and goes on otherwise.
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
		<-talked // the terminal hangs up with its last process
		_ = screen.Close()
		t.out.WriteString(strings.ReplaceAll(t.person.saw, "\r\n", "\n"))
	}()
	return t
}

// talk reads the terminal until that hangs up, and answers each question as soon as it
// stands there.
func (d *dialogue) talk(ctx context.Context) {
	b := make([]byte, 4096)
	for {
		n, err := d.screen.Read(b)
		d.saw += string(b[:n])
		if answer := d.answer(ctx); answer != "" {
			_, _ = io.WriteString(d.screen, answer+"\n") // whoever asked may have ended
		}
		if err != nil {
			return // EIO: nobody has the terminal any more
		}
	}
}

// doubted is how acode names the step of which nobody can know.
var doubted = regexp.MustCompile(`Nobody can know whether (\S+) \(`)

// answer is what the person types now; empty when nothing is asked.
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

// verdict looks up what became of the command of a step whose outcome nobody can know.
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

// verdict says what became of the last attempt of a step that nobody can know about;
// empty where there is none.
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

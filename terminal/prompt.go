package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/acode-dev/acode/session"
)

// maxTries bounds how often a question is repeated after an answer that is none.
const maxTries = 5

// Ask asks a yes-or-no question and returns def for an empty answer. The end of in is an
// error: nobody answered.
func Ask(in io.Reader, err io.Writer, question string, def bool) (bool, error) {
	choices := " [y/N] "
	if def {
		choices = " [Y/n] "
	}
	return ask(in, err, Clean(question)+choices, "yes or no", func(answer string) (yes, ok bool) {
		yes = answer == "y" || answer == "yes"
		return yes || def && answer == "", yes || answer == "" || answer == "n" || answer == "no"
	})
}

// Pick asks for one of the numbers from 1 to n, and returns 1 for an empty answer and 0
// for a no.
func Pick(in io.Reader, err io.Writer, question string, n int) (int, error) {
	return ask(in, err, Clean(question)+" [1] ", fmt.Sprintf("a number from 1 to %d, or no", n), func(answer string) (int, bool) {
		if answer == "" {
			return 1, true
		}
		number, bad := strconv.Atoi(answer)
		return number, bad == nil && number >= 1 && number <= n || answer == "n" || answer == "no"
	})
}

// Approve asks for an approval: there is no default, and only the whole words count.
func Approve(in io.Reader, err io.Writer, question string) (bool, error) {
	return ask(in, err, cleanText(question, "  ")+" [yes/no] ", "yes or no, as a whole word", func(answer string) (yes, ok bool) {
		return answer == "yes", answer == "yes" || answer == "no"
	})
}

// Confirm asks for typed to be typed, as a guard before what cannot be taken back.
// Anything else is a no.
func Confirm(in io.Reader, err io.Writer, typed string) (bool, error) {
	return ask(in, err, "Type "+Clean(typed)+" to confirm: ", "", func(answer string) (yes, ok bool) {
		return answer == strings.ToLower(typed), true
	})
}

// Choose offers options that begin with their letter in brackets, as "[C]ontinue anyway",
// and returns the lower-case letter of the one chosen. The first word of an option is an
// answer too.
func Choose(in io.Reader, err io.Writer, options []string) (string, error) {
	text := "\nOptions:\n"
	letters := map[string]string{} // by answer
	// in the order of options
	var keys []string
	for _, o := range options {
		text += "  " + Clean(o) + "\n"
		if letter, rest, ok := strings.Cut(strings.ToLower(strings.TrimPrefix(o, "[")), "]"); ok {
			word, _, _ := strings.Cut(letter+rest, " ")
			letters[letter], letters[word] = letter, letter
			keys = append(keys, letter)
		}
	}
	_, _ = io.WriteString(err, text+"\n") // an answer may still come
	return ask(in, err, "Choice: ", "one of "+strings.Join(keys, ", "), func(answer string) (string, bool) {
		letter, ok := letters[answer]
		return letter, ok
	})
}

// ask repeats prompt until judge accepts the answer, which is trimmed and in lower case.
// After one that is none it says what is wanted.
func ask[T any](in io.Reader, err io.Writer, prompt, wanted string, judge func(string) (T, bool)) (T, error) {
	var none T
	for try := range maxTries {
		if try > 0 {
			_, _ = fmt.Fprintf(err, "Please answer %s.\n", Clean(wanted)) // an answer may still come
		}
		_, _ = io.WriteString(err, prompt) // as above
		answer, rerr := readLine(in)
		if rerr != nil {
			_, _ = io.WriteString(err, "\n") // as above
			return none, fmt.Errorf("read answer: %w", rerr)
		}
		if v, ok := judge(strings.ToLower(strings.TrimSpace(answer))); ok {
			return v, nil
		}
	}
	return none, &session.Error{
		Code: session.ErrUsage, Message: "the question was not answered; nothing was changed",
		Next: session.Words("answer with one of the choices that are shown"),
	}
}

// maxAnswer bounds an answer in bytes; what is beyond it on the line is dropped.
const maxAnswer = 4096

// readLine reads up to a newline and not one byte further: what follows answers the next
// question. It returns io.ErrUnexpectedEOF when there was no line at all, or the terminal
// was closed.
func readLine(in io.Reader) (string, error) {
	var answer []byte
	var one [1]byte
	for {
		n, err := in.Read(one[:])
		if n == 1 && one[0] == '\n' {
			return string(answer), nil
		}
		if n == 1 && len(answer) < maxAnswer {
			answer = append(answer, one[0])
		}
		switch {
		case errors.Is(err, io.EOF) && len(answer) > 0:
			return string(answer), nil
		case errors.Is(err, io.EOF), errors.Is(err, syscall.EIO):
			return "", io.ErrUnexpectedEOF
		case err != nil:
			return "", err
		}
	}
}

// Choose is the function Choose on the printer's terminal, below what was shown so far.
func (p *Printer) Choose(in io.Reader, options []string) (string, error) {
	p.Settle()
	defer p.answered()
	return Choose(in, question{p}, options)
}

// Approve is the function Approve on the printer's terminal. It says there what a yes
// lets happen, unless Out has just shown it on the terminal.
func (p *Printer) Approve(in io.Reader, text string) (bool, error) {
	if !p.o.Live {
		p.Tell(p.gate)
	}
	p.Settle()
	defer p.answered()
	return Approve(in, question{p}, text)
}

// question is where a question is written while other steps may be shown.
type question struct{ p *Printer }

// Write implements io.Writer.
func (q question) Write(text []byte) (int, error) {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	q.p.prompt = string(text[bytes.LastIndexByte(text, '\n')+1:])
	return q.p.o.Err.Write(text)
}

func (p *Printer) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = ""
}

// Tell writes what a question is about, where the question goes: also when Quiet leaves
// out progress, and when Out is not the terminal.
func (p *Printer) Tell(lines []string) {
	p.Settle()
	p.aside("", lines...)
}

// TellChanged is Tell for changed files, unless Out has just shown them on the terminal.
func (p *Printer) TellChanged(changed []session.ChangedFile) {
	if p.o.Live {
		return
	}
	lines := []string{"Changed files detected:"}
	for _, c := range changed {
		lines = append(lines, "  - "+changedLine(c, p.o.Now()))
	}
	p.Tell(lines)
}

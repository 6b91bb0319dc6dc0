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

// maxTries limits how often a question is repeated after an invalid answer.
const maxTries = 5

// Ask asks a yes-or-no question and returns def for an empty answer. The end of in is an
// error, because there was no answer.
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

// Pick asks for a number from 1 to n. It returns 1 for an empty answer and 0 for no.
func Pick(in io.Reader, err io.Writer, question string, n int) (int, error) {
	return ask(in, err, Clean(question)+" [1] ", fmt.Sprintf("a number from 1 to %d, or no", n), func(answer string) (int, bool) {
		if answer == "" {
			return 1, true
		}
		number, bad := strconv.Atoi(answer)
		return number, bad == nil && number >= 1 && number <= n || answer == "n" || answer == "no"
	})
}

// Approve asks for an approval. It has no default, and only the whole words are answers.
func Approve(in io.Reader, err io.Writer, question string) (bool, error) {
	return ask(in, err, cleanText(question, "  ")+" [yes/no] ", "yes or no, as a whole word", func(answer string) (yes, ok bool) {
		return answer == "yes", answer == "yes" || answer == "no"
	})
}

// Confirm asks the person to type typed, before an action that cannot be undone. Any
// other answer returns false.
func Confirm(in io.Reader, err io.Writer, typed string) (bool, error) {
	return ask(in, err, "Type "+Clean(typed)+" to confirm: ", "", func(answer string) (yes, ok bool) {
		return answer == strings.ToLower(typed), true
	})
}

// Choose offers options that begin with their letter in brackets, for example "[C]ontinue
// anyway". It returns the lower-case letter of the chosen option. The first word of an
// option is an answer too.
func Choose(in io.Reader, err io.Writer, options []string) (string, error) {
	text := "\nOptions:\n"
	// By answer.
	letters := map[string]string{}
	// In the order of options.
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

// ask repeats prompt until judge accepts the answer. The answer is trimmed and in lower
// case. After an invalid answer it prints wanted.
func ask[T any](in io.Reader, err io.Writer, prompt, wanted string, judge func(string) (T, bool)) (T, error) {
	var none T
	for try := range maxTries {
		if try > 0 {
			_, _ = fmt.Fprintf(err, "Please answer %s.\n", Clean(wanted)) // an answer may still come
		}
		_, _ = io.WriteString(err, prompt) // an answer may still come
		answer, rerr := readLine(in)
		if rerr != nil {
			_, _ = io.WriteString(err, "\n") // there is no other place to report to
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

// maxAnswer limits an answer in bytes. The rest of the line is dropped.
const maxAnswer = 4096

// readLine reads up to a newline and not one byte further, because the next bytes answer
// the next question. It returns io.ErrUnexpectedEOF when there was no line, or the
// terminal was closed.
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

// Choose calls Choose on the printer's terminal, below the output so far.
func (p *Printer) Choose(in io.Reader, options []string) (string, error) {
	p.Release()
	defer p.answered()
	return Choose(in, question{p}, options)
}

// Approve calls Approve on the printer's terminal. It first prints the steps that a yes
// would allow, unless Out has just shown them on the terminal.
func (p *Printer) Approve(in io.Reader, text string) (bool, error) {
	if !p.o.Live {
		p.Tell(p.gate)
	}
	p.Release()
	defer p.answered()
	return Approve(in, question{p}, text)
}

// Permit asks about a call of a model, or about a plan of it. offer says what a rule
// would allow; it is empty if there is none. It returns the letter of Choose, and for a
// no the words for the model.
func (p *Printer) Permit(in io.Reader, plan bool, offer string) (letter, words string, err error) {
	if !p.o.Live {
		p.Tell(p.gate)
	}
	options := []string{"[Y]es, once"}
	if offer != "" {
		options = append(options, "[S]ession: for the rest of this session, "+offer, "[A]lways: from now on, "+offer)
	}
	options = append(options, "[N]o", "[T]ell the model why not")
	if plan {
		options = []string{"[Y]es, carry it out", "[N]o", "[T]ell the model what to change"}
	}
	if letter, err = p.Choose(in, options); letter != "t" {
		return letter, "", err
	}
	defer p.answered()
	_, _ = io.WriteString(question{p}, "Words for the model: ") // an answer may still come
	words, err = readLine(in)
	return "n", strings.TrimSpace(words), err
}

// question writes a question while other steps may be shown.
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

// Tell prints the subject of a question to Err, like the question. It also prints when
// Quiet is set, and when Out is not the terminal.
func (p *Printer) Tell(lines []string) {
	p.Release()
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

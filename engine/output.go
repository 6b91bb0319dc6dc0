package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// maxReceipt limits the output in a receipt, which is delivered.
	maxReceipt = 256 << 10
	// shownLines limits the lines that are shown of a failed command's output.
	shownLines = 20
	// shownBytes limits the bytes of these lines.
	shownBytes = 4 << 10
	// wroteLines limits the lines of each output that acode shows on request.
	wroteLines = 200
)

// captureFailure returns a failure if the output cannot be captured, and an error if it
// could not be read.
func captureFailure(err error) (*failure, error) {
	if err == nil || session.CodeOf(err) != session.ErrCommand {
		return nil, err
	}
	return &failure{code: session.ErrCommand, message: err.Error()}, nil
}

// result stores the output of the command. wrote is the end of both outputs. last is the
// end of its standard error, or of its standard output if standard error is empty.
func (b *branch) result(ctx context.Context, rec session.CommandRecord) (c *session.CommandResult, wrote, last []string, err error) {
	c = &session.CommandResult{
		Exit: rec.Exit, Signal: rec.Signal, TimedOut: rec.TimedOut, Cancelled: rec.Cancelled,
		StartError: rec.StartError, DurationUS: max(0, rec.EndedUS-rec.StartedUS), Left: rec.Left,
	}
	stdout, stderr, err := b.Commands.Output(rec.Key)
	if err != nil {
		return nil, nil, nil, err
	}
	defer stdout.Close()
	defer stderr.Close()
	// A separate standard error gets up to half of the space, and standard output gets
	// the rest.
	errText, err := b.keepEnds(ctx, stderr, maxReceipt/2, &c.Stderr)
	if err != nil {
		return nil, nil, nil, err
	}
	outText, err := b.keepEnds(ctx, stdout, maxReceipt-min(len(errText), maxReceipt/2), &c.Stdout)
	if err != nil {
		return nil, nil, nil, err
	}
	wrote = append(session.LastLines(outText, wroteLines, 0), session.LastLines(errText, wroteLines, 0)...)
	last = session.LastLines(errText, shownLines, shownBytes)
	if len(last) == 0 {
		last = session.LastLines(outText, shownLines, shownBytes)
	}
	return c, wrote, last, nil
}

// keepEnds stores the head and tail of an output, half of limit each, and returns them.
// It also stores the whole output as a blob if that is longer or is not valid text.
func (b *branch) keepEnds(ctx context.Context, from io.Reader, limit int, to *session.Output) (text string, err error) {
	raw := &counted{Reader: from}
	masked := b.Masked(raw)
	e := ends{limit: limit}
	if _, err := io.CopyN(&e, masked, int64(limit)+1); err != nil && err != io.EOF {
		return "", fmt.Errorf("read command output: %w", err)
	}
	var whole session.BlobRef
	if begin := slices.Concat(e.head, e.tail); e.cut() || !utf8.Valid(begin) {
		if whole, err = b.Blobs.StageMasked(ctx, io.MultiReader(bytes.NewReader(begin), io.TeeReader(masked, &e)), -1); err != nil {
			return "", err
		}
	}
	text, cut := e.text(b.clean)
	out, err := b.output(ctx, text, raw.bytes, cut)
	if err != nil {
		return "", err
	}
	*to, to.Whole = *out, whole
	return text, nil
}

// lastWrote returns the last lines of a command without a receipt: of its standard
// output, then of its standard error. It leaves out output that it cannot read.
func (b *branch) lastWrote(key string) (last []string) {
	stdout, stderr, err := b.Commands.Output(key)
	if err != nil {
		return nil
	}
	defer stdout.Close()
	defer stderr.Close()
	for _, from := range []io.Reader{stdout, stderr} {
		e := ends{limit: maxReceipt}
		if _, err := io.Copy(&e, b.Masked(from)); err == nil {
			text, _ := e.text(b.clean)
			last = append(last, session.LastLines(text, shownLines, shownBytes)...)
		}
	}
	return last
}

// ends receives masked text. It keeps the first and last limit/2 bytes, or all of it if
// that is not more than limit.
type ends struct {
	limit int
	// up to limit/2
	head []byte
	// text after head; only the end of it if there is more than limit
	tail []byte
	// some text was dropped
	left bool
}

// Write implements io.Writer.
func (e *ends) Write(p []byte) (int, error) {
	n := min(len(p), e.limit/2-len(e.head))
	e.head = append(e.head, p[:n]...)
	e.tail = append(e.tail, p[n:]...)
	if keep := e.limit - e.limit/2; len(e.tail) > 2*e.limit {
		e.left = true
		e.tail = append(e.tail[:0], e.tail[len(e.tail)-keep:]...)
	}
	return len(p), nil
}

// cut reports whether the middle is missing.
func (e *ends) cut() bool { return e.left || len(e.head)+len(e.tail) > e.limit }

// text returns the kept text, cleaned. cut is true if the middle is missing.
func (e *ends) text(clean func(string) string) (text string, cut bool) {
	head, tail := string(e.head), string(e.tail)
	if !e.cut() {
		if text = clean(head + tail); len(text) <= e.limit {
			return text, false
		}
		head, tail = text, text // cleaning makes invalid text longer
	}
	half := e.limit / 2
	head, tail = clean(head), clean(tail)
	return clean(head[:min(len(head), half)] + "\n[acode: the middle was left out]\n" + tail[max(0, len(tail)-half):]), true
}

// counted counts the bytes read from a command's output.
type counted struct {
	io.Reader
	bytes int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += int64(n)
	return n, err
}

// Gaps implements redact.Gapped.
func (c *counted) Gaps() []redact.Gap {
	if g, ok := c.Reader.(redact.Gapped); ok {
		return g.Gaps()
	}
	return nil
}

// keepCapture stages a captured value for the receipt.
func (b *branch) keepCapture(ctx context.Context, name, value string) (*session.Capture, error) {
	ref, err := b.Blobs.Stage(ctx, strings.NewReader(value), int64(len(value)))
	return &session.Capture{Name: name, Blob: ref}, err
}

// captureText returns the captured value and passes it to Captured.
func (b *branch) captureText(key, name string) (string, error) {
	stdout, stderr, err := b.Commands.Output(key)
	if err != nil {
		return "", err
	}
	defer stdout.Close()
	defer stderr.Close()
	raw, err := io.ReadAll(io.LimitReader(stdout, 2*session.MaxCaptureBytes))
	if err != nil {
		return "", fmt.Errorf("read command output: %w", err)
	}
	value, err := session.CaptureValue(name, string(raw))
	if err == nil && b.Captured != nil {
		b.Captured(name, value)
	}
	return value, err
}

// inlineOutput is how much output a receipt holds; more becomes a blob.
const inlineOutput = 2 << 10

// output stores text as a receipt holds it. cut says that the text was shortened.
func (b *branch) output(ctx context.Context, text string, size int64, cut bool) (*session.Output, error) {
	text = b.clean(text)
	out := &session.Output{Bytes: size, Cut: cut}
	if len(text) <= inlineOutput {
		out.Text = text
		return out, nil
	}
	ref, err := b.Blobs.StageMasked(ctx, strings.NewReader(text), int64(len(text)))
	out.Blob = ref
	return out, err
}

// clean makes raw output valid text and redacts it.
func (b *branch) clean(text string) string {
	if !utf8.ValidString(text) { // a secret may be invalid text too, and must be found in its raw form
		text = strings.ToValidUTF8(b.Redact(text), "�")
	}
	return b.Redact(text)
}

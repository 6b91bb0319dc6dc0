package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

const (
	maxReceipt = 256 << 10 // of each output stream that a receipt keeps
	cutMargin  = 16 << 10  // seen beyond a cut: no secret is longer
	shownLines = 20        // of the output of a failed command
	shownBytes = 4 << 10   // of these lines
	wroteLines = 200       // of each output that whoever wants more is shown
)

// captureFailure tells an output that cannot be captured from one that could not be read.
func captureFailure(err error) (*failure, error) {
	if err == nil || session.CodeOf(err) != session.ErrCommand {
		return nil, err
	}
	return &failure{code: session.ErrCommand, message: err.Error()}, nil
}

// result keeps what the command wrote; wrote is the end of both outputs, last that of its
// standard error, or of its standard output where that is empty.
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
	for _, o := range []struct {
		from io.Reader
		to   *session.Output
	}{{stdout, &c.Stdout}, {stderr, &c.Stderr}} {
		text, size, cut, err := ends(o.from, maxReceipt, b.clean)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read command output: %w", err)
		}
		out, err := b.output(ctx, text, size, cut)
		if err != nil {
			return nil, nil, nil, err
		}
		if *o.to = *out; cut && b.Masked != nil {
			if o.to.Whole, err = b.keepWhole(ctx, rec.Key, o.to == &c.Stderr); err != nil {
				return nil, nil, nil, err
			}
		}
		text = b.clean(text)
		wrote = append(wrote, session.LastLines(text, wroteLines, 0)...)
		if end := session.LastLines(text, shownLines, shownBytes); len(end) > 0 {
			last = end
		}
	}
	return c, wrote, last, nil
}

// keepWhole keeps an output of which the receipt holds only the ends.
func (b *branch) keepWhole(ctx context.Context, key string, isErr bool) (session.BlobRef, error) {
	stdout, stderr, err := b.Commands.Output(key)
	if err != nil {
		return session.BlobRef{}, err
	}
	defer stdout.Close()
	defer stderr.Close()
	from := stdout
	if isErr {
		from = stderr
	}
	return b.Blobs.Stage(ctx, b.Masked(from), -1)
}

// lastWrote gives the end of what a command wrote of which there is no receipt: of its standard
// output, then of its standard error. What cannot be read is left out.
func (b *branch) lastWrote(key string) (last []string) {
	stdout, stderr, err := b.Commands.Output(key)
	if err != nil {
		return nil
	}
	defer stdout.Close()
	defer stderr.Close()
	for _, from := range []io.Reader{stdout, stderr} {
		if text, _, _, err := ends(from, maxReceipt, b.clean); err == nil {
			last = append(last, session.LastLines(b.clean(text), shownLines, shownBytes)...)
		}
	}
	return last
}

// ends reads r whole and keeps its first and last limit/2 bytes. What it cuts it cleans
// before, with a margin on the far side of the cut, so that no part of a secret is left over.
func ends(r io.Reader, limit int, clean func(string) string) (text string, size int64, cut bool, err error) {
	keep := limit/2 + cutMargin
	head, err := io.ReadAll(io.LimitReader(r, int64(keep)))
	if err != nil || len(head) < keep {
		return string(head), int64(len(head)), false, err
	}
	tail := slices.Clone(head[limit/2:])
	size = int64(len(head))
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = r.Read(buf)
		size += int64(n)
		tail = append(tail, buf[:n]...)
		if len(tail) > 2*keep {
			cut = true
			tail = append(tail[:0], tail[len(tail)-keep:]...)
		}
	}
	if err != io.EOF {
		return "", size, cut, err
	}
	first, last := string(head), string(tail)
	if !cut { // nothing is lost yet: what runs over both halves is seen whole
		first = string(head[:limit/2]) + last
		if size <= int64(limit) {
			return first, size, false, nil
		}
		last = first
	}
	first, last = clean(first), clean(last)
	if cut { // however much cleaning took away, what the cut itself went through is in the margin
		first, last = first[:max(0, len(first)-cutMargin)], last[min(len(last), cutMargin):]
	}
	return first[:min(len(first), limit/2)] + "\n[acode: the middle was left out]\n" + last[max(0, len(last)-limit/2):], size, true, nil
}

// keepCapture stages a captured value for the receipt.
func (b *branch) keepCapture(ctx context.Context, name, value string) (*session.Capture, error) {
	ref, err := b.Blobs.Stage(ctx, strings.NewReader(value), int64(len(value)))
	return &session.Capture{Name: name, Blob: ref}, err
}

// captureText gives that value, of which Captured learns.
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

// inlineOutput is how much of an output stands in its receipt; more becomes a blob.
const inlineOutput = 2 << 10

// output keeps text, already cut if it had to be, as a receipt holds it.
func (b *branch) output(ctx context.Context, text string, size int64, cut bool) (*session.Output, error) {
	text = b.clean(text)
	out := &session.Output{Bytes: size, Cut: cut}
	if len(text) <= inlineOutput {
		out.Text = text
		return out, nil
	}
	ref, err := b.Blobs.Stage(ctx, strings.NewReader(text), int64(len(text)))
	out.Blob = ref
	return out, err
}

// clean makes raw output fit to be kept and shown.
func (b *branch) clean(text string) string {
	if !utf8.ValidString(text) { // a secret need be no text either, and is found as it was written
		text = strings.ToValidUTF8(b.Redact(text), "�")
	}
	return b.Redact(text)
}

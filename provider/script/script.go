// Package script is a model that follows a script: a file with one JSON object a line,
// each of them a reply. It needs no network, so it shows and tests how acode works with a
// model.
//
// A request after n whole replies of the model gets line n+1. So the reply to a request
// depends on nothing but the request and the file. Lines with "for" are counted only in
// conversations whose first message contains that text.
package script

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// maxBytes limits the length of a script.
const maxBytes = 16 << 20

// Model is a model that follows a script.
type Model struct {
	// Name is its name in the configuration.
	Name string
	// File is the absolute path of the script.
	File string
	// Log is the absolute path of a file that gets each request as a line of JSON; empty
	// for none.
	Log string
}

// line is a reply of the script.
type line struct {
	// For selects conversations by a text in their first message; empty for all.
	For   string `json:"for"`
	Text  string `json:"text"`
	Calls []struct {
		ID        string          `json:"id"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"calls"`
	// Usage replaces the numbers that the model gives, which count 3 bytes as a token.
	Usage *session.Usage `json:"usage"`
	// Pause is how long the model waits between two pieces, in milliseconds.
	Pause int `json:"pause_ms"`
}

// piece is a part of a reply as it is sent: one JSON object a line.
type piece struct {
	Text string `json:"text,omitempty"`
	// Call begins a call. Arguments continue the last one.
	Call      *call  `json:"call,omitempty"`
	Arguments string `json:"arguments,omitempty"`
	// End ends a reply.
	End *session.Usage `json:"end,omitempty"`
}

type call struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
}

// Setup describes the model.
func (m Model) Setup() session.ModelSetup {
	sum := sha256.Sum256([]byte(m.File))
	return session.ModelSetup{Name: m.Name, Provider: "script", Digest: hex.EncodeToString(sum[:])}
}

// Ask writes the reply to r to into, in pieces. It returns ErrModel if the script has no
// reply, and the cause of ctx if that ends first.
func (m Model) Ask(ctx context.Context, r session.ModelRequest, into io.Writer) error {
	if err := m.log(r); err != nil {
		return err
	}
	reply, err := m.reply(r)
	if err != nil {
		return err
	}
	for _, p := range reply.pieces(r) {
		raw, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("encode a piece: %w", err)
		}
		if _, err := into.Write(append(raw, '\n')); err != nil {
			return fmt.Errorf("write a piece: %w", err)
		}
		if err := rest(ctx, time.Duration(reply.Pause)*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Check returns ErrModel if the script cannot be read.
func (m Model) Check(context.Context) error {
	_, err := m.lines()
	return err
}

// log appends the request to the log.
func (m Model) log(r session.ModelRequest) error {
	if m.Log == "" {
		return nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	f, err := os.OpenFile(m.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return m.unusable("its log cannot be opened", m.Log, err)
	}
	_, err = f.Write(append(raw, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return m.unusable("its log cannot be written", m.Log, err)
	}
	return nil
}

func (m Model) unusable(what, place string, cause error) error {
	return &session.Error{Code: session.ErrModel, Message: "the model " + m.Name + " gave no answer: " + what, Place: place, Cause: cause,
		Next: session.Words("correct the script, then resume")}
}

// entry is a line of the file.
type entry struct {
	number int
	text   []byte
}

// lines returns the lines of the script. Empty ones count as nothing.
func (m Model) lines() (out []entry, err error) {
	info, err := os.Stat(m.File)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxBytes) {
		err = fmt.Errorf("it is not a file of at most %d bytes", maxBytes)
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(m.File)
	}
	if err != nil {
		return nil, m.unusable("its script cannot be read", m.File, err)
	}
	for i, text := range bytes.Split(raw, []byte("\n")) {
		if len(bytes.TrimSpace(text)) > 0 {
			out = append(out, entry{i + 1, text})
		}
	}
	return out, nil
}

// reply returns the line of the script for r.
func (m Model) reply(r session.ModelRequest) (line, error) {
	lines, err := m.lines()
	if err != nil {
		return line{}, err
	}
	first := ""
	if len(r.Messages) > 0 {
		first = r.Messages[0].Text
	}
	return m.read(linesFor(lines, first), r.Replies)
}

// linesFor returns the lines for conversations with this first message. It keeps lines
// that are not valid, which read refuses.
func linesFor(lines []entry, first string) (out []entry) {
	for _, e := range lines {
		var l struct {
			For string `json:"for"`
		}
		if json.Unmarshal(e.text, &l) != nil || strings.Contains(first, l.For) {
			out = append(out, e)
		}
	}
	return out
}

// read returns a reply of the script.
func (m Model) read(lines []entry, n int) (line, error) {
	if n >= len(lines) {
		return line{}, m.unusable(fmt.Sprintf("its script has %d replies, and this is request %d", len(lines), n+1), m.File, nil)
	}
	var l line
	if err := json.Unmarshal(lines[n].text, &l); err != nil {
		return line{}, m.unusable("its script is not valid", fmt.Sprintf("%s:%d", m.File, lines[n].number), err)
	}
	return l, nil
}

// bytesPerToken is for the usage that a model of a script reports.
const bytesPerToken = 3

// pieceBytes is the greatest length of a piece.
const pieceBytes = 24

// pieces returns the parts in which the reply is sent.
func (l line) pieces(r session.ModelRequest) (out []piece) {
	var sent int64
	for _, part := range parts(l.Text) {
		out = append(out, piece{Text: part})
		sent += int64(len(part))
	}
	for _, c := range l.Calls {
		out = append(out, piece{Call: &call{ID: c.ID, Tool: c.Tool}})
		for _, part := range parts(string(c.Arguments)) {
			out = append(out, piece{Arguments: part})
			sent += int64(len(part))
		}
	}
	if l.Usage != nil {
		return append(out, piece{End: l.Usage})
	}
	var got int64
	for _, msg := range r.Messages {
		got += int64(len(msg.Text))
	}
	return append(out, piece{End: &session.Usage{Input: got / bytesPerToken, Output: sent / bytesPerToken}})
}

// parts divides a text into parts of at most pieceBytes, at the ends of characters.
func parts(text string) (out []string) {
	begin := 0
	for i := range text {
		if i-begin >= pieceBytes {
			out, begin = append(out, text[begin:i]), i
		}
	}
	if begin < len(text) {
		out = append(out, text[begin:])
	}
	return out
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reply reads the bytes of a reply, or of a part of one.
func (Model) Reply(raw []byte) (r session.Reply, err error) {
	var text strings.Builder
	var arguments []*strings.Builder
	defer func() {
		r.Text = text.String()
		for i := range r.Calls {
			r.Calls[i].Arguments = arguments[i].String()
		}
	}()
	for one := range bytes.Lines(raw) {
		if !bytes.HasSuffix(one, []byte("\n")) {
			return r, nil // the rest of it did not arrive
		}
		var p piece
		if err := json.Unmarshal(one, &p); err != nil {
			return r, &session.Error{Code: session.ErrModel, Message: "a reply of the model cannot be read", Cause: err}
		}
		switch {
		case p.Call != nil:
			r.Calls, arguments = append(r.Calls, session.ModelCall{Number: len(r.Calls) + 1, ID: p.Call.ID, Tool: p.Call.Tool}), append(arguments, &strings.Builder{})
		case p.Arguments != "" && len(r.Calls) > 0:
			arguments[len(arguments)-1].WriteString(p.Arguments)
		case p.End != nil:
			r.Usage, r.Whole = *p.End, true
		}
		text.WriteString(p.Text)
	}
	return r, nil
}

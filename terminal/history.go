package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// each calls f for every event while it reads them, because a session may have more
// events than fit into memory. It skips damaged events and returns the first ErrCorrupt
// at the end.
func each(events iter.Seq2[session.Event, error], f func(session.Event) error) (damage error) {
	for e, err := range events {
		switch {
		case err == nil:
			if err := f(e); err != nil {
				return err
			}
		case !errors.Is(err, session.ErrCorrupt):
			return err
		case damage == nil:
			damage = err
		}
	}
	return damage
}

// historyLines is how many lines of a history are aligned together.
const historyLines = 1000

// History prints events as a table or as JSON Lines, one line each, the oldest first.
func (p Page) History(events iter.Seq2[session.Event, error]) error {
	if p.JSON {
		return each(events, func(e session.Event) error { return p.json(NewEventJSON(e)) })
	}
	table := [][]string{{"SEQ", "TIME", "EPOCH", "ACTOR", "TYPE", "WHAT"}}
	var widths []int
	flush := func() error {
		if len(table) == 0 {
			return nil
		}
		widths = widest(table, widths)
		err := p.aligned(table, widths)
		table = table[:0]
		return err
	}
	damage := each(events, func(e session.Event) error {
		table = append(table, []string{
			strconv.FormatUint(e.Seq, 10), p.Instant(e.TimeUS), strconv.FormatUint(e.Epoch, 10),
			e.Actor, string(e.Type), gist(e),
		})
		if len(table) < historyLines {
			return nil
		}
		return flush()
	})
	return errors.Join(flush(), damage)
}

// mostHeld is how many held changes a line of the history names.
const mostHeld = 5

// gist summarizes a payload on one line. It also names an unreadable payload, because
// people read this table when something is wrong.
func gist(e session.Event) string {
	var d struct {
		session.StepID
		Attempt  int            `json:"attempt"`
		From     session.State  `json:"from"`
		To       session.State  `json:"to"`
		Reason   session.Reason `json:"reason"`
		Code     session.Code   `json:"code"`
		Message  string         `json:"message"`
		Why      string         `json:"why"`
		Short    string         `json:"short_id"`
		Host     string         `json:"host"`
		PID      int            `json:"pid"`
		By       string         `json:"by"`
		Call     *session.Call  `json:"call"`
		Ops      []string       `json:"ops"`
		Answer   string         `json:"answer"`
		Kind     string         `json:"kind"`
		Text     string         `json:"text"`
		Said     session.Output `json:"said"`
		Question string         `json:"question"`
		Classes  []string       `json:"classes"`
		Scope    session.Scope  `json:"scope"`

		Held []session.HeldChange `json:"held"`
	}
	// The "task" and "steps" of this payload do not belong to a step.
	var created session.SessionCreatedData
	switch {
	case e.Type == session.SessionCreated && e.Decode(&created) == nil:
		return created.Short + ": " + created.Task
	case e.Type == session.SessionCreated || json.Unmarshal(e.Content(), &d) != nil:
		return "unreadable payload"
	}
	var words []string
	add := func(format string, v any, ok bool) {
		if ok {
			words = append(words, fmt.Sprintf(format, v))
		}
	}
	add("%s", d.StepID.String(), d.Step != "")
	if d.Call != nil {
		add("%s", d.Call.Label, true)
	}
	add("%s", strings.Join(d.Ops, ", "), len(d.Ops) > 0)
	add("attempt %d", d.Attempt, d.Attempt > 1)
	add("%s", d.Kind+": "+begin(d.Text), e.Type == session.MessageAdded)
	add("asks: %s", begin(d.Question), d.Question != "")
	add("for %s", d.Scope, d.Scope != "")
	add("%s without a question", strings.Join(d.Classes, ", "), len(d.Classes) > 0)
	add("%s", begin(d.Said.Text), d.Said.Text != "")
	add("%s", string(d.From)+" → "+string(d.To), d.To != "")
	add("(%s)", d.Reason, d.Reason != "")
	add("%s", d.Code, d.Code != "")
	add("%s", d.Message, d.Message != "")
	add("%s", d.Why, d.Why != "")
	for i, h := range d.Held {
		add("put back %s ("+h.Change+")", h.Path, i < mostHeld)
	}
	add("and %d more", len(d.Held)-mostHeld, len(d.Held) > mostHeld)
	add("%s", d.Answer, d.Answer != "")
	add("pid %d", d.PID, d.PID != 0)
	add("on %s", d.Host, d.Host != "")
	add("by %s", d.By, d.By != "")
	return strings.Join(words, " ")
}

// shortText is how much of a text of a conversation a line of the history shows.
const shortText = 60

// begin returns the beginning of the first line of a text.
func begin(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == strings.TrimSpace(text) && len(line) <= shortText {
		return line
	}
	return strings.ToValidUTF8(line[:min(len(line), shortText)], "") + " …"
}

// EventJSON is an event for scripts: a line of the history or an element of an export.
// Time and Type repeat TS and Event in the format of an export.
type EventJSON struct {
	V         int               `json:"v"`
	TS        string            `json:"ts" jsonschema:"when it happened; UTC, microseconds"`
	Type      string            `json:"type" jsonschema:"event on a line of its own, else the same as event"`
	SessionID session.ID        `json:"session_id"`
	Seq       uint64            `json:"seq"`
	ID        string            `json:"id" jsonschema:"a UUID"`
	Event     session.EventType `json:"event" jsonschema:"what happened"`
	Actor     string            `json:"actor"`
	Epoch     uint64            `json:"epoch"`
	Payload   json.RawMessage   `json:"payload" jsonschema:"described in properties under the value of event; a string if it is not JSON; only payload_blob if a large payload is damaged"`
	Hash      string            `json:"hash" jsonschema:"of the chain up to here, hexadecimal"`
	Time      string            `json:"time" jsonschema:"the same as ts, without trailing zeros"`
}

// NewEventJSON returns e for scripts.
func NewEventJSON(e session.Event) EventJSON {
	payload := json.RawMessage(e.Content())
	if !json.Valid(payload) {
		payload, _ = json.Marshal(string(payload)) // a string always encodes
	}
	return EventJSON{
		V: jsonVersion, TS: stamp(e.Time()), Type: "event", SessionID: e.Session, Seq: e.Seq, ID: uuid(e.ID), Event: e.Type,
		Actor: e.Actor, Epoch: e.Epoch, Payload: payload, Hash: e.Hash.String(), Time: e.Time().Format(time.RFC3339Nano),
	}
}

// Export writes a session with all its events as one document. It leaves out damaged
// events and returns their error after the rest. After any other error the document is
// incomplete.
func (p Page) Export(v app.Export) error {
	head := encode(struct {
		V       int             `json:"v"`
		Session rowJSON         `json:"session"`
		Plan    json.RawMessage `json:"plan"`
	}{jsonVersion, newRowJSON(v.Row), v.Plan})
	if err := p.write(strings.TrimSuffix(string(head), "}\n") + `,"events":[`); err != nil {
		return err
	}
	comma := ""
	damage := each(v.Events, func(e session.Event) error {
		out := NewEventJSON(e)
		out.Type = string(e.Type)
		err := p.write(comma + strings.TrimSuffix(string(encode(out)), "\n"))
		comma = ","
		return err
	})
	if damage != nil && !errors.Is(damage, session.ErrCorrupt) {
		return damage
	}
	return errors.Join(p.write("]}\n"), damage)
}

func uuid(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

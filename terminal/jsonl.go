package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/acode-dev/acode/session"
)

// jsonVersion is the version of every object that acode writes for scripts. A version may
// get new fields, but loses none.
const jsonVersion = 1

// jsonLines holds lines back until the line that names the session has been written.
type jsonLines struct {
	named bool
	held  bytes.Buffer
}

func (j *jsonLines) write(w io.Writer, line []byte, first bool) {
	if j.named || first {
		j.named = true
		_, _ = w.Write(line) // a lost reader must not stop a session
		j.flush(w)
		return
	}
	j.held.Write(line)
}

func (j *jsonLines) flush(w io.Writer) {
	_, _ = j.held.WriteTo(w) // as in write
}

// line is the form of every JSON Line. Type is the kind of the notice and decides which
// fields are set.
type line struct {
	V    int    `json:"v"`
	TS   string `json:"ts"`
	Type string `json:"type"`
	// ReadAt is when acode read a line of output.
	ReadAt string `json:"read_at,omitempty"`
	// Seq is the event of the notice.
	Seq       uint64         `json:"seq,omitempty"`
	SessionID session.ID     `json:"session_id,omitempty"`
	ShortID   string         `json:"short_id,omitempty"`
	Task      string         `json:"task,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	State     session.State  `json:"state,omitempty"`
	Reason    session.Reason `json:"reason,omitempty"`
	Step      *stepJSON      `json:"step,omitempty"`
	Plan      *planJSON      `json:"plan,omitempty"`
	Action    session.Action `json:"action,omitempty"`
	Text      string         `json:"text,omitempty"`
	// Stream is the stream of a line of output, if known.
	Stream  session.Stream       `json:"stream,omitempty"`
	Detail  []string             `json:"detail,omitempty"`
	TookUS  *int64               `json:"took_us,omitempty"`
	Changed *session.ChangedFile `json:"changed,omitempty"`
	Sync    *syncJSON            `json:"sync,omitempty"`
	*resultJSON
}

type stepJSON struct {
	TaskID   string         `json:"task_id"`
	StepID   string         `json:"step_id"`
	Op       string         `json:"op,omitempty" jsonschema:"names a call of an agent"`
	Task     int            `json:"task"`
	Step     int            `json:"step"`
	Title    string         `json:"title,omitempty"`
	Label    string         `json:"label"`
	Kind     session.Kind   `json:"kind"`
	Action   session.Action `json:"action"`
	Status   session.Status `json:"status"`
	Attempt  int            `json:"attempt"`
	Decision string         `json:"why,omitempty"`
}

type planJSON struct {
	Skipped   int       `json:"skipped"`
	Remaining int       `json:"remaining"`
	SavedUS   int64     `json:"saved_us"`
	Tasks     int       `json:"tasks"`
	TasksDone int       `json:"tasks_done"`
	From      *stepJSON `json:"from,omitempty"`
}

// resultJSON holds the fields of the last line. Exit is the exit status of the program.
type resultJSON struct {
	Done      int          `json:"done"`
	Left      int          `json:"left"`
	Code      session.Code `json:"code"`
	Exit      int          `json:"exit"`
	Message   string       `json:"message"`
	Place     string       `json:"place,omitempty"`
	Next      string       `json:"next"`
	Retryable bool         `json:"retryable,omitempty"`
	Signal    int          `json:"signal,omitempty"`
}

func newStepJSON(it session.Item) *stepJSON {
	return &stepJSON{
		TaskID: it.ID.Task, StepID: it.ID.Step, Op: it.ID.Op, Task: it.Task, Step: it.Step, Title: it.Title,
		Label: it.Label, Kind: it.Kind, Action: it.Action, Status: it.Status,
		Attempt: it.Attempt, Decision: it.Why,
	}
}

func newStepsJSON(items []session.Item) []*stepJSON {
	out := make([]*stepJSON, len(items))
	for i, it := range items {
		out[i] = newStepJSON(it)
	}
	return out
}

func newPlanJSON(c *session.Continuation) *planJSON {
	pj := &planJSON{
		Skipped: c.Skipped, Remaining: c.Remaining,
		SavedUS: c.Saved.Microseconds(), Tasks: c.Tasks, TasksDone: c.TasksDone,
	}
	if it, ok := c.First(); ok {
		pj.From = newStepJSON(it)
	}
	return pj
}

func (p *Printer) newLine(kind session.NoticeKind) line {
	l := line{V: jsonVersion, TS: stamp(p.o.Now()), Type: string(kind)}
	if p.sess != nil {
		l.SessionID = p.sess.ID
	}
	return l
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// writeJSON writes n as one line. With Quiet it writes only the first and the last line.
func (p *Printer) writeJSON(n session.Notice) {
	ends := n.Kind == session.NoticeSession || n.Kind == session.NoticeResult
	if p.o.Quiet && !ends {
		return
	}
	l := p.newLine(n.Kind)
	if l.Seq = n.Seq; n.Seq > 0 {
		l.TS = stamp(time.UnixMicro(n.TimeUS))
	}
	if n.Kind == session.NoticeOutput && n.TimeUS > 0 {
		l.ReadAt = stamp(time.UnixMicro(n.TimeUS))
	}
	l.Text, l.Stream, l.Detail, l.Changed, l.Action = n.Text, n.Stream, n.Detail, n.Changed, n.Level
	if n.Item != nil {
		l.Step = newStepJSON(*n.Item)
		l.Step.Status = p.statusOf(n)
	}
	if n.Kind == session.NoticeSession || n.Kind == session.NoticeHeader {
		if s := p.sess; s != nil {
			l.ShortID, l.Task, l.Workspace, l.State = s.Short, s.Task, s.Workspace, p.loaded.state
		}
	}
	switch n.Kind {
	case session.NoticeHeader:
		l.Sync = new(newSyncJSON(p.o.Sync))
		if n.Next != nil {
			l.Plan = newPlanJSON(n.Next)
		}
	case session.NoticeCompleted, session.NoticeFailed, session.NoticeUncertain:
		l.TookUS = new(n.Took.Microseconds())
	case session.NoticeResult:
		r := cmp.Or(n.Result, &session.Result{})
		l.SessionID = cmp.Or(r.Session, l.SessionID)
		l.ShortID, l.State, l.Reason = r.Short, r.State, r.Reason
		l.resultJSON = &resultJSON{
			Done: r.Done, Left: r.Left, Code: r.Code, Exit: p.o.Exit(*r),
			Message: r.Message, Next: r.Next.Text, Signal: r.Signal,
		}
	}
	p.json.write(p.o.Out, encode(l), n.Kind == session.NoticeSession)
	if n.Kind == session.NoticeResult {
		p.json.flush(p.o.Out)
	}
}

// statusOf returns the status of n's step after n. The item of n holds the status before.
func (p *Printer) statusOf(n session.Notice) session.Status {
	switch n.Kind {
	case session.NoticeStarted:
		return session.InProgress
	// Another goroutine may be changing the session.
	case session.NoticeOutput, session.NoticeLagging:
		return n.Item.Status
	case session.NoticeCompleted:
		return session.StepDone
	case session.NoticeFailed:
		return session.StepFailed
	case session.NoticeUncertain:
		return session.StepUncertain
	}
	if p.sess != nil {
		return p.sess.Status(n.Item.ID)
	}
	return n.Item.Status
}

// encode returns v as one line of JSON. JSON itself escapes the control characters below
// U+0020. The other unsafe characters occur only within strings and are escaped here
// (T1).
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("terminal: a line must encode: " + err.Error())
	}
	return escapeJSON(b.Bytes())
}

func escapeJSON(in []byte) []byte {
	var out []byte
	for _, r := range string(in) {
		if r < 0x7f || !unsafeRune(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// JSON writes v as the one object of a command. v must have a field "v" with the version.
// List and others have functions of their own.
func JSON(w io.Writer, v any) error {
	if _, err := w.Write(encode(v)); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

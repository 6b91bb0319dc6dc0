package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// The outcomes that are no outcomes of an operation.
const (
	// the call was refused, and nothing was changed
	outcomeDenied = "denied"
	// the call was not carried out; the client is told of earlier ones first
	outcomeTold = "told"
)

const (
	// headBytes and tailBytes are how much of a long output an answer has.
	headBytes = 6 << 10
	tailBytes = 10 << 10
	// lastBytes is how much of an output the list of a told answer has.
	lastBytes = 600
	// mostChanged is how many changed files an answer names.
	mostChanged = 20
)

// result is the structured content of an answer. Some clients give the model this instead
// of the text, so it has the text too.
type result struct {
	// Operation and Handle name the operation; they are empty if there is none.
	Operation string `json:"operation,omitempty"`
	Handle    string `json:"handle,omitempty"`
	// Label describes the operation.
	Label   string `json:"label,omitempty"`
	Outcome string `json:"outcome"`
	// Recovered says that this is the result of an earlier call.
	Recovered bool `json:"recovered"`
	Exit      *int `json:"exit,omitempty"`
	// Changed are files of the session that others have changed since.
	Changed []change `json:"changed_meanwhile"`
	// Held are changes of protected paths that acode put back.
	Held []held `json:"held,omitempty"`
	// Owed are the earlier calls of a told answer, oldest first.
	Owed []result `json:"owed,omitempty"`
	// problem describes a refusal or a failure; nil for none.
	*problem
	Text string `json:"text,omitempty"`
	// Note is about the text. It is no part of a file that the text has.
	Note string `json:"note,omitempty"`
}

// change is a file that changed.
type change struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Diff string `json:"diff,omitempty"`
}

// held is a change of a protected path, which waits for a person.
type held struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	// Stays says that acode could not put it back.
	Stays bool `json:"stays,omitempty"`
}

// problem is an error in the words of this door.
type problem struct {
	Code session.Code `json:"code"`
	// Cause is acode's own code if Code is a name that other servers of tasks use.
	Cause     session.Code `json:"cause,omitempty"`
	Message   string       `json:"message,omitempty"`
	Hint      string       `json:"hint"`
	Retryable bool         `json:"retryable"`
	// Changed are files that keep a task from being resumed.
	Changed []string `json:"changed_files,omitempty"`
}

// words puts errors in the words of one kind of server.
type words struct {
	spell func(session.Hint) string
	// hints has the default next step of codes where a client can do less than a person.
	hints map[session.Code]string
}

func (w words) problem(err error) problem {
	p := problem{Code: app.CodeOf(err), Message: err.Error()}
	var e *session.Error
	if errors.As(err, &e) {
		p.Retryable, p.Hint = e.Retryable, w.spell(e.Next)
	}
	p.Hint = cmp.Or(p.Hint, w.hints[p.Code], w.spell(app.Hint(err)))
	var r refusal
	if errors.As(err, &r) {
		p.Changed = r.changed
		if r.as != "" {
			p.Code, p.Cause = r.as, p.Code
		}
	}
	return p
}

// refusal is an error of a control tool with more details.
type refusal struct {
	error
	// as is the name that clients of control tools know; empty for the code.
	as session.Code
	// changed are files that others have changed.
	changed []string
}

// Unwrap returns the error itself.
func (r refusal) Unwrap() error { return r.error }

// hints are those of words for files and commands.
func hints() map[session.Code]string {
	again := "fix the cause, then make the call again"
	return map[session.Code]string{
		session.ErrFileStep:  again,
		session.ErrEscape:    "name a path inside the workspace",
		session.ErrCommand:   again,
		session.ErrUsage:     "look at the schema of the tool",
		session.ErrUnknownID: "session_state lists the handles that are open",
		session.ErrLocked:    "make the call again later",
		session.ErrConflict:  "give the call another name",
		session.ErrWorkspace: "a person can start the server in a project directory with -C DIR",
	}
}

func (p problem) String() string { return fmt.Sprintf("%s (%s). Hint: %s", p.Message, p.Code, p.Hint) }

// reply makes the answer of a tool from its structured content.
func reply(r result, isError bool) *sdk.CallToolResult {
	if r.Changed == nil {
		r.Changed = []change{}
	}
	content := []sdk.Content{&sdk.TextContent{Text: r.Text}}
	if r.Note != "" {
		content = append(content, &sdk.TextContent{Text: r.Note})
	}
	return &sdk.CallToolResult{Content: content, StructuredContent: r, IsError: isError}
}

// refused is the answer to a call that was not carried out.
func refused(err error, w words) *sdk.CallToolResult {
	p := w.problem(err)
	return reply(result{Outcome: outcomeDenied, problem: &p, Text: p.String()}, true)
}

// describe makes the structured content of an operation. recovered says that an equal
// call asked for it.
func (t *talk) describe(ctx context.Context, a app.CallResult, recovered bool) (result, error) {
	r := result{Operation: a.Op.Op, Handle: a.Op.Op, Label: a.Label, Outcome: a.Outcome, Recovered: recovered}
	if recovered || a.Outcome == app.CallUnknown {
		if err := t.Since(ctx, &a); err != nil {
			return r, err
		}
		r.Changed = changes(a.Changed)
	}
	var out strings.Builder
	if recovered {
		out.WriteString(t.again(a))
	}
	t.outcome(&out, &r, a)
	if ran(a) {
		shown, err := t.output(ctx, a.Op, headBytes, tailBytes)
		if err != nil {
			return r, err
		}
		out.WriteString(shown)
	}
	if !recovered && len(r.Changed) > 0 {
		out.WriteString("\nFiles of this session that changed: " + named(r.Changed) + "\n")
	}
	r.Text = strings.TrimRight(out.String(), "\n")
	return r, nil
}

// ran reports whether a call ran a command, which may have output.
func ran(a app.CallResult) bool { return a.Tool == "run_command" }

// again says that a call was not carried out because an equal one was.
func (t *talk) again(a app.CallResult) string {
	began := t.clock(a.StartedUS)
	var out strings.Builder
	if a.Outcome == app.CallRuns {
		fmt.Fprintf(&out, "NOT STARTED AGAIN. The same call began at %s, before your connection was lost, and it still runs.", began)
	} else {
		ended := ""
		if a.EndedUS > 0 { // an end with an unknown outcome has no time
			ended = " and ended at " + t.clock(a.EndedUS)
		}
		fmt.Fprintf(&out, "NOT RUN NOW. The same call ran at %s%s, before your connection was lost. This is its result.", began, ended)
	}
	fmt.Fprintf(&out, " Files changed since: %s.", cmp.Or(named(changes(a.Changed)), "none"))
	out.WriteString(" To run it again, repeat the call with fresh: true.\n\n")
	return out.String()
}

// outcome says how an operation ended.
func (t *talk) outcome(out *strings.Builder, r *result, a app.CallResult) {
	switch c := a.Command; {
	case a.Outcome == app.CallRuns:
		fmt.Fprintf(out, "STILL RUNNING: %s has the handle %s. It continues; use wait_command, command_output or stop_command with this handle. Do not start it again.\n", cmp.Or(a.Label, "the call"), a.Op.Op)
	case a.Outcome == app.CallUnknown:
		fmt.Fprintf(out, "OUTCOME UNKNOWN: %s\nIt may have had its effect, in whole or in part. Look at the files and the output before you repeat it; a repeated call is carried out.\n", cmp.Or(a.Message, "no record of its end exists"))
	case c != nil:
		exit := c.Exit
		r.Exit = &exit
		fmt.Fprintf(out, "%s after %s.\n", tool.Ended(*c), time.Duration(c.DurationUS*1000).Round(time.Millisecond))
	case a.Outcome == app.CallFailed:
		fmt.Fprintf(out, "FAILED: %s (%s)\n", a.Message, a.Code)
	default:
		fmt.Fprintf(out, "Done: %s\n", a.Label)
	}
	if len(a.Held) > 0 {
		t.held(out, r, a)
	}
	if a.Outcome == app.CallFailed && a.Command == nil {
		r.problem = &problem{Code: a.Code, Message: a.Message, Hint: "fix the cause, then make the call again"}
	}
	if c := a.Command; c != nil && len(c.Left) > 0 {
		fmt.Fprintf(out, "Processes that still run: %s\n", strings.Join(c.Left, "; "))
	}
}

// held says which changes of a command wait for a person.
func (t *talk) held(out *strings.Builder, r *result, a app.CallResult) {
	var back, stay []change
	for _, h := range a.Held {
		r.Held = append(r.Held, held{Path: h.Path, Change: h.Change, Stays: h.Stays})
		if c := (change{Path: h.Path, Kind: h.Change}); h.Stays {
			stay = append(stay, c)
		} else {
			back = append(back, c)
		}
	}
	if len(back) > 0 {
		_, short := t.Session(t.ctx)
		fmt.Fprintf(out, "HELD: other programs execute or trust these paths, so acode put them back as they were: %s. Your changes are kept for a person. Do not make them again. %s\n", named(back),
			t.options.Spell(session.Hint{Text: "A person can see and apply them with", Do: session.MoveApprove, Session: short, Step: a.Op}))
	}
	if len(stay) > 0 {
		fmt.Fprintf(out, "NOT PUT BACK: acode could not put back these paths, which other programs execute or trust: %s. Tell a person.\n", named(stay))
	}
}

// output returns the output of a command: its head, its tail, and how to read the rest.
func (t *talk) output(ctx context.Context, op session.StepID, head, tail int) (string, error) {
	text, _, total, err := t.Output(ctx, op, 0, head+tail)
	if err != nil || total <= int64(head+tail) {
		return text, err
	}
	from := total - int64(tail)
	end, _, _, err := t.Output(ctx, op, from, tail)
	if err != nil {
		return "", err
	}
	end = strings.ToValidUTF8(end, "")
	if head == 0 {
		return "… " + end, nil
	}
	return fmt.Sprintf("%s\n… %d of %d bytes are left out here; read them with command_output: handle %s, from %d …\n%s",
		strings.ToValidUTF8(text[:head], ""), from-int64(head), total, op.Op, head, end), nil
}

// told is the answer to a call that has to wait until the client knows of earlier ones.
func (t *talk) told(ctx context.Context, owed []app.CallResult) (result, error) {
	r := result{Outcome: outcomeTold}
	var out strings.Builder
	out.WriteString("NOT RUN. Your connection was lost earlier, and you may not have seen the answers of these calls:\n")
	for i, a := range owed {
		if err := t.Since(ctx, &a); err != nil {
			return r, err
		}
		item := result{Operation: a.Op.Op, Handle: a.Op.Op, Label: a.Label, Outcome: a.Outcome, Recovered: true, Changed: changes(a.Changed)}
		if item.Changed == nil {
			item.Changed = []change{}
		}
		fmt.Fprintf(&out, "\n%d. %s: %s (handle %s), began at %s", i+1, a.Tool, a.Label, a.Op.Op, t.clock(a.StartedUS))
		if a.EndedUS > 0 {
			out.WriteString(", ended at " + t.clock(a.EndedUS))
		}
		out.WriteString(".\n")
		t.outcome(&out, &item, a)
		if ran(a) {
			last, err := t.output(ctx, a.Op, 0, lastBytes)
			if err != nil {
				return r, err
			}
			if last = strings.TrimSpace(last); last != "" {
				fmt.Fprintf(&out, "Last output: %s\n", last)
			}
		}
		if len(item.Changed) > 0 {
			fmt.Fprintf(&out, "Files changed since: %s.\n", named(item.Changed))
		}
		r.Owed = append(r.Owed, item)
	}
	out.WriteString("\nCompare them with what you were about to do. If your call is still needed, make it again now: it will be carried out.")
	r.Text = out.String()
	return r, nil
}

func changes(all []app.Difference) []change {
	var out []change
	for _, d := range all {
		out = append(out, change{Path: d.Path, Kind: d.Kind, Diff: strings.Join(d.Lines, "\n")})
	}
	return out
}

// named lists changed files in a sentence.
func named(all []change) string {
	var words []string
	for i, c := range all {
		if i == mostChanged {
			words = append(words, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		words = append(words, c.Path+" ("+c.Kind+")")
	}
	return strings.Join(words, ", ")
}

// clock returns a time of day, with the date unless it is today.
func (t *talk) clock(us int64) string {
	at, now := time.UnixMicro(us), t.options.Now()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// isError reports whether an outcome is an error for the model.
func isError(outcome string) bool {
	return outcome == app.CallFailed || outcome == app.CallUnknown || outcome == outcomeDenied
}

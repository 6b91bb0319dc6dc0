package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/tool"
)

// A request is reduced when it has more than fullAt percent of the context, to at most
// fitsAt percent.
const (
	fullAt = 80
	fitsAt = 60
)

const (
	// outputs of the newest replies, and the newest replies themselves, stay
	keptOutputs, keptReplies = 3, 2
	// longOutput is the length from which an output is left out.
	longOutput = 400
	// mostFacts limits the calls that a summary lists, and mostWords the texts of the
	// model.
	mostFacts, mostWords = 200, 10
	wordBytes            = 300
)

// history is what a conversation must know to leave out its old parts.
type history struct {
	// how many messages at the beginning always stay: the task and the rules of the
	// workspace
	kept int
	// replies in the requests: the index of the message, and the turn
	starts []int
	turns  []string
	// how many replies are left out, and for each reply what its calls did
	gone  int
	facts [][]string
	// words of the model, one for each reply
	words []string
	// whole outputs, by the operation
	outputs map[string]string
	// hashes of the files that calls wrote
	files map[string]string
}

// replied keeps the place of a reply. op names its request.
func (c *Conversation) replied(op string, at int) {
	c.starts, c.turns = append(c.starts, at), append(c.turns, strings.TrimPrefix(op, "m"))
	c.facts, c.words = append(c.facts, nil), append(c.words, c.messages[at].Text)
}

// had keeps the outcome of a call of the last reply.
func (c *Conversation) had(op string, call session.ModelCall, text string) {
	if c.outputs == nil {
		c.outputs = map[string]string{}
	}
	c.outputs[op] = text
	outcome, _, _ := strings.Cut(text, "\n")
	last := len(c.facts) - 1
	c.facts[last] = append(c.facts[last], fmt.Sprintf("%s %s %s: %s", op, call.Tool, tool.Cut(subject(call), 120), tool.Cut(outcome, 160)))
}

// subject says what a call was about: its command, path or pattern.
func subject(call session.ModelCall) string {
	var args map[string]any
	_ = json.Unmarshal([]byte(call.Arguments), &args) // arguments that are no object say nothing
	for _, name := range []string{"command", "path", "from", "pattern"} {
		if s, ok := args[name].(string); ok {
			return strings.Join(strings.Fields(s), " ")
		}
	}
	return ""
}

func (c *Conversation) wrote(files []session.FileState) {
	for _, f := range files {
		if f.Wrote {
			if c.files == nil {
				c.files = map[string]string{}
			}
			c.files[f.Path] = f.Hash
		}
	}
}

// Reduce returns what is to be left out so that the next request fits into a context of
// this many tokens; nil if it fits, or if nothing can be left out. 0 means no limit.
func (c *Conversation) Reduce(context int64) *session.ContextReducedData {
	now := c.Tokens()
	if context == 0 || now*100 <= context*fullAt {
		return nil
	}
	outputs := len(c.starts) - keptOutputs
	saved := c.saves(outputs)
	if saved > 0 && (now-saved)*100 <= context*fitsAt {
		return &session.ContextReducedData{Replies: outputs}
	}
	if n := len(c.starts) - keptReplies; n > 0 {
		return &session.ContextReducedData{Replies: n, Summary: c.summary(n)}
	}
	if saved > 0 {
		return &session.ContextReducedData{Replies: outputs}
	}
	return nil
}

// saves estimates the tokens of the outputs of the oldest n replies.
func (c *Conversation) saves(n int) (tokens int64) {
	c.old(n, func(m *session.Message, op string) {
		tokens += int64(len(m.Text)-len(leftOut(op, len(m.Text)))) / session.BytesPerToken
	})
	return tokens
}

// old calls f with each long output of the oldest n replies.
func (c *Conversation) old(n int, f func(m *session.Message, op string)) {
	for i := range max(0, n) {
		for j, at := 1, c.starts[i]+1; at < len(c.messages) && c.messages[at].Role == session.RoleTool; j, at = j+1, at+1 {
			op := fmt.Sprintf("c%s.%d", c.turns[i], j)
			if m := &c.messages[at]; len(m.Text) > longOutput && m.Text == c.outputs[op] {
				f(m, op)
			}
		}
	}
}

func leftOut(op string, bytes int) string {
	return fmt.Sprintf("(This result of %d bytes is left out here. To read it: read_output with the handle %s.)", bytes, op)
}

// summary describes the oldest n replies, and those that were left out before: what truly
// happened from the records, and the words of the model.
func (c *Conversation) summary(n int) string {
	var facts, words []string
	for _, f := range c.facts[:c.gone+n] {
		facts = append(facts, f...)
	}
	for _, w := range c.words[:c.gone+n] {
		if w != "" {
			words = append(words, tool.Cut(strings.Join(strings.Fields(w), " "), wordBytes))
		}
	}
	text := "To make room, acode left out the oldest part of this conversation. FACTS from the records of acode, which are true and finished; do not do them again:\n"
	text += listOf(facts, mostFacts)
	if len(c.files) > 0 {
		text += "Files that were written, with the beginning of their SHA-256 after the last write:\n"
		for _, path := range slices.Sorted(maps.Keys(c.files)) {
			text += "- " + path + " " + c.files[path][:min(12, len(c.files[path]))] + "\n"
		}
	}
	return text + "YOUR OWN WORDS of that part, which may have been plans or mistakes:\n" + listOf(words, mostWords) + "A whole result can be read with read_output and its handle, such as c3.1."
}

// listOf returns the newest lines, each with a hyphen.
func listOf(lines []string, most int) (text string) {
	if more := len(lines) - most; more > 0 {
		text, lines = fmt.Sprintf("- … and %d before\n", more), lines[more:]
	}
	for _, l := range lines {
		text += "- " + l + "\n"
	}
	return text
}

// reduced leaves out the parts that an event names.
func (c *Conversation) reduced(d session.ContextReducedData) {
	if d.Replies >= len(c.starts) {
		return // not an event of this program
	}
	c.known, c.counted = 0, 0
	if d.Summary == "" {
		c.old(d.Replies, func(m *session.Message, op string) { m.Text = leftOut(op, len(m.Text)) })
		return
	}
	first := c.starts[d.Replies]
	c.messages = slices.Concat(c.messages[:c.kept], []session.Message{{Role: session.RoleUser, Text: d.Summary}}, c.messages[first:])
	moved := first - c.kept - 1
	c.starts, c.turns, c.gone = slices.Clone(c.starts[d.Replies:]), c.turns[d.Replies:], c.gone+d.Replies
	for i := range c.starts {
		c.starts[i] -= moved
	}
	c.results -= moved
}

// readOutputName is the tool that opens results that were left out.
const readOutputName = "read_output"

func readOutput() tool.Tool {
	return tool.Tool{Name: readOutputName, Title: "Read output", About: "Read the result of an earlier call that is left out of the conversation.",
		Args: []tool.Argument{tool.Text("handle", "the handle of the call, such as c3.1"), tool.Number("from", "the first byte", 0, 0, 1<<40), tool.Number("limit", "how many bytes at most", 8000, 1, 64<<10)}}
}

// reads returns the result that a call of read_output names.
func (c *Conversation) reads(call session.ModelCall, args tool.Arguments) (session.CallWork, error) {
	text, ok := c.outputs[args.Text("handle")]
	if !ok {
		return session.CallWork{}, tool.Usage(fmt.Sprintf("no call has the handle %q", tool.Cut(args.Text("handle"), 40)), "use a handle such as c3.1")
	}
	from := min(args.Number("from"), int64(len(text)))
	to := min(from+args.Number("limit"), int64(len(text)))
	found := strings.ToValidUTF8(text[from:to], "")
	if to < int64(len(text)) {
		found += fmt.Sprintf("\n… %d of %d bytes follow; read them from %d", int64(len(text))-to, len(text), to)
	}
	return session.CallWork{Tool: call.Tool, Arguments: args.Canonical(), Step: session.Step{ID: "call", Kind: session.KindRead, Read: &session.Read{Path: args.Text("handle")}}, Reads: true, Found: &found}, nil
}

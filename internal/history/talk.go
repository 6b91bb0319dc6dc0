package history

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/session"
)

// Talk is the conversation of a prompt step, as the generator computes it.
type Talk struct {
	Turn, Attempt, Calls int
	Begun, Asked, Failed bool
	Digest               string
}

// begin starts the conversation of a new attempt. Turns are numbered over all attempts.
func (g *generator) begin(id session.StepID) {
	if g.m.Talks[id] == nil {
		g.m.Talks[id] = &Talk{}
	}
	*g.m.Talks[id] = Talk{Turn: g.m.Talks[id].Turn}
}

// heard adds an event to the digest of a conversation. It repeats the rule of the program
// on purpose.
func (g *generator) heard(id session.StepID, typ session.EventType, data any) {
	t := g.m.Talks[id.Of()]
	if t == nil {
		return
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic("history: a payload must encode: " + err.Error())
	}
	b := []byte("acode-talk-v1\x00")
	for _, text := range []string{t.Digest, string(typ), string(raw)} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
	}
	sum := sha256.Sum256(b)
	t.Digest = hex.EncodeToString(sum[:])
}

// busy reports whether an operation of a step is in progress.
func (g *generator) busy(id session.StepID) bool {
	for op, status := range g.m.Ops {
		if op.Of() == id && status == session.InProgress {
			return true
		}
	}
	return false
}

// told removes the operations of a step that is a conversation.
func (g *generator) told(id session.StepID) {
	for op := range g.m.Ops {
		if op.Of() == id {
			delete(g.m.Ops, op)
			delete(g.m.Attempt, op)
		}
	}
}

// legalTalk lists the next actions of a conversation in progress.
func (g *generator) legalTalk(s step) []action {
	t := g.m.Talks[s.id]
	var as []action
	often := func(name string, do func()) { as = append(as, action{name, do}, action{name, do}, action{name, do}) }
	if t.Asked {
		cut := action{"cut", func() { g.cut(s.id) }}
		often("answer", func() { g.answer(s.id) })
		return append(as, cut, cut)
	}
	as = append(as, action{"message", func() { g.message(s.id) }})
	if t.Begun && t.Turn > 1 {
		often("reduce", func() { g.reduce(s.id) })
	}
	if t.Begun && !g.busy(s.id) {
		often("ask model", func() { g.askModel(s.id) })
	}
	for n := 1; n <= t.Calls; n++ {
		if id := session.TurnCallID(s.id, t.Turn, n); g.m.Ops[id] == "" {
			often("call "+id.String(), func() { g.start(step{id: id, kind: session.KindRun}) })
		}
	}
	return as
}

func (g *generator) message(id session.StepID) {
	kind := rapid.SampledFrom([]string{session.MessagePrompt, session.MessageRules, session.MessageResumed, session.MessageMore}).Draw(g.t, "message")
	d := session.MessageAddedData{StepID: id, Kind: kind, Text: "drawn"}
	g.add(session.MessageAdded, "acode", d)
	g.heard(id, session.MessageAdded, d)
	g.m.Talks[id].Begun = true
}

func (g *generator) askModel(id session.StepID) {
	t := g.m.Talks[id]
	if t.Attempt++; !t.Failed {
		t.Turn, t.Attempt = t.Turn+1, 1
	}
	t.Asked, t.Failed, t.Calls = true, false, 0
	op := session.TurnID(id, t.Turn)
	d := session.ModelAskedData{StepID: op, Attempt: t.Attempt, Model: session.ModelSetup{Name: "m", Provider: "script"}, Tools: hash("tools"), Render: 1}
	g.heard(id, session.ModelAsked, d)
	d.Key = g.requestKey(op)
	g.add(session.ModelAsked, "acode", d)
	g.told(id)
}

func (g *generator) requestKey(op session.StepID) string {
	return fmt.Sprintf("v1:%s:%s:%d", g.m.Session, op, g.m.Talks[op.Of()].Attempt)
}

func (g *generator) answer(id session.StepID) {
	t := g.m.Talks[id]
	t.Asked, t.Calls = false, rapid.IntRange(0, 2).Draw(g.t, "calls")
	op := session.TurnID(id, t.Turn)
	d := session.ModelAnsweredData{StepID: op, Attempt: t.Attempt, Request: t.Digest, Reply: session.BlobRef{Hash: hash("reply"), Bytes: 5},
		Said: session.Output{Text: "said", Bytes: 4}, Calls: t.Calls, Usage: session.Usage{Input: 3, Output: 2}}
	g.heard(id, session.ModelAnswered, d)
	d.Key = g.requestKey(op)
	g.add(session.ModelAnswered, "acode", d)
}

func (g *generator) cut(id session.StepID) {
	t := g.m.Talks[id]
	t.Asked, t.Failed = false, true
	op := session.TurnID(id, t.Turn)
	d := session.ModelFailedData{StepID: op, Attempt: t.Attempt, Code: session.ErrModel, Message: "drawn"}
	g.heard(id, session.ModelFailed, d)
	d.Key = g.requestKey(op)
	g.add(session.ModelFailed, "acode", d)
}

func (g *generator) reduce(id session.StepID) {
	d := session.ContextReducedData{StepID: id, Replies: 1, Summary: rapid.SampledFrom([]string{"", "facts"}).Draw(g.t, "summary")}
	g.add(session.ContextReduced, "acode", d)
	g.heard(id, session.ContextReduced, d)
}

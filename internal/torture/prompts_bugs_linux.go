package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// promptBugs returns the mistakes that killed prompts must find.
func promptBugs() []bug {
	return []bug{
		{name: "a reply is recorded before its bytes", judges: []judge{promptJudge("kills in a reply", replySpots, "after the second piece of reply 1 of Tidy")}, shows: "lacks the part of the reply", edits: []edit{
			{"engine/reply.go", "	err = send(w)\n", "	held := &bytes.Buffer{}\n	if err = send(held); err == nil {\n		return held.Bytes(), w.Close()\n	}\n"},
			{"engine/reply.go", "import (\n", "import (\n	\"bytes\"\n"}}},
		{name: "a call before its intent", judges: []judge{promptJudge("kills at changes of files", func() []spot { return countedSpots("change", 12, 1, isChange) }, "after change")}, edits: []edit{{"engine/attempt.go",
			"	if err := b.commit(ctx, session.Draft{Type: it.ID.Event(session.StepStarted), Data: d}); err != nil {\n		return err\n	}",
			"	if draft := (session.Draft{Type: it.ID.Event(session.StepStarted), Data: d}); it.Call != nil && it.Kind != session.KindRun {\n		b.pending = append(b.pending, draft)\n	} else if err := b.commit(ctx, draft); err != nil {\n		return err\n	}"}}},
		{name: "a piece of a reply is dropped", judges: []judge{promptJudge("kills at requests", requestSpots, "after request 2")}, shows: "and the model said", edits: []edit{{"provider/script/script.go",
			"		text.WriteString(p.Text)\n", "		if p.Text != \"ext.\" {\n			text.WriteString(p.Text)\n		}\n"}}},
		{name: "a digest without the last message", judges: []judge{digestJudge()}, shows: "have one digest", edits: []edit{{"session/talk.go",
			"	if t.First == 0 {\n		t.First = e.Seq\n	}\n	t.add(e.Type, d)\n", "	if t.First == 0 {\n		t.First = e.Seq\n	}\n"}}},
	}
}

// digestQuery lists the digests of the first requests that got an answer.
const digestQuery = `SELECT json_extract(payload, '$.request') FROM events WHERE type = 'ModelAnswered' ORDER BY pos LIMIT 1`

// digestJudge compares the digests of two requests that differ only in their last
// message, and of two that are equal. The digest binds a reply to what the model saw.
func digestJudge() judge {
	return judge{"digests of requests", func(ctx context.Context, h *harness) (string, error) {
		var digests []string
		t, err := h.newPrompt("digest", spot{}) // in one place, which the digest covers too
		for _, text := range []string{planTalk, planTalk, planTalk + "!"} {
			if err = errors.Join(err, t.prepare()); err != nil {
				return "", err
			}
			_ = t.Program(ctx, []string{t.Acode, "run", text}).Run() // it ends with a question
			var out string
			out, err = t.Query(ctx, digestQuery)
			digests = append(digests, strings.TrimSpace(out))
		}
		if err = errors.Join(err, os.RemoveAll(t.Root)); err != nil {
			return "", err
		}
		switch {
		case digests[0] == "":
			return "a reply has no digest", nil
		case digests[0] == digests[2]:
			return fmt.Sprintf("two requests with other messages have one digest: %s", digests[0]), nil
		case digests[0] != digests[1]:
			return "two equal requests have two digests", nil
		}
		return "", nil
	}}
}

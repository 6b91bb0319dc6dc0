package main

import (
	"context"
	"sync"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/people"
)

// judgedScenarios is the most scenarios that judgeOf executes.
const judgedScenarios = 40

// judgeOf executes scenarios of a kind until a session goes wrong.
func judgeOf(k kind) judge {
	return judge{k.name, func(ctx context.Context, h *harness) (string, error) {
		var mu sync.Mutex
		found := ""
		err := h.each(ctx, 1, judgedScenarios, func(ctx context.Context, n int) error {
			mu.Lock()
			over := found != ""
			mu.Unlock()
			if over {
				return nil
			}
			s, err := h.scenario(ctx, k, n)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if s.Bad() {
				found = s.String()
			}
			return nil
		})
		return found, err
	}}
}

// cancelJudge ends a running command long before it would end by itself.
func cancelJudge() judge {
	return judge{"a command that is cancelled", func(ctx context.Context, h *harness) (string, error) {
		s := h.newScenario("cancelled", model.Long(), people.Cancelled())
		err := s.Play(ctx)
		return s.String(), err
	}}
}

// peopleBugs returns the mistakes that the scenarios must find.
func peopleBugs() []bug {
	found, down, cancelled := []judge{judgeOf(byPeople())}, []judge{judgeOf(shutdowns())}, []judge{judgeOf(cancels())}
	return []bug{
		{name: "an end by a signal is a failure", judges: down, shows: "steps failed, of which people ended", edits: []edit{{"session/command.go",
			"	case slices.Contains(interruptions, r.Signal):\n		return r.Signal\n	case shellStatus[r.Exit] != \"\":\n",
			"	case shellStatus[-r.Exit] != \"\" && slices.Contains(interruptions, r.Signal):\n"}}},
		{name: "a torn capture is taken", judges: down, shows: "captured", edits: []edit{
			{"engine/uncertain.go", "	return r.Capture != \"\" && !given\n", "	return r.Capture != \"\" && !given && it == nil\n"},
			{"engine/uncertain.go", "		value := b.Policy.Captures[it.ID]\n",
				"		value, given := b.Policy.Captures[it.ID]\n		if !given {\n			value, _ = b.captureText(key, name)\n		}\n"}}},
		{name: "a claim vanishes", judges: down, shows: "repeated: ", edits: []edit{{"provider/command/record.go",
			"	return rec, c, err\n}\n\nfunc lookAt(", "	if err == nil && rec.State == session.CommandUnknown {\n		return session.CommandRecord{Key: key, State: session.CommandUnclaimed}, claim{}, os.Remove(claimPath(dir, key))\n	}\n	return rec, c, err\n}\n\nfunc lookAt("}}},
		{name: "a cancel drops a result", judges: cancelled, shows: "lost: the result of ", edits: []edit{{"engine/cancel.go",
			"	case rec.State == session.CommandFinished:\n", "	case rec.State == session.CommandFinished && rec.Cancelled:\n"}}},
		{name: "an open question counts as done", judges: found, shows: `ends with 0, the session is "awaiting_approval"`, edits: []edit{{"cli/exit.go",
			"	case r.Code == \"\":\n", "	case r.Code == \"\" || r.Code == session.ErrApproval:\n"}}},
		{name: "cancel leaves the command", judges: []judge{cancelJudge()}, shows: "acode session cancel leaves", edits: []edit{{"app/cancel.go",
			"			if err := command.Cancel(ctx, s.commandDir(id), r.Key); err != nil {\n", "			if err := ctx.Err(); err != nil {\n"}}},
		{name: "one question, two approvals", judges: found, shows: "acode approve ends with 20", edits: []edit{{"session/answer.go",
			"	case asked.Answer == \"\":\n", "	case asked.Answer != \"denied\":\n"}}},
		{name: "a dry run that writes", judges: found, shows: "--dry-run", edits: []edit{{"cli/resume.go",
			"	s, err := i.openFor(ctx, ref, f.dryRun, f.settings())\n", "	s, err := i.openFor(ctx, ref, false, f.settings())\n"}}},
		{name: "the first signal ends the command", judges: found, shows: "steps failed, of which people ended", edits: []edit{{"cli/signals.go",
			"asked == 2 {", "asked == 1 {"}}},
		{name: "every answer runs it again", judges: found, edits: []edit{{"engine/uncertain.go",
			"	switch verdict {\n	case session.InterruptDone:\n",
			"	if by == \"person\" {\n		verdict = session.InterruptReruns\n	}\n	switch verdict {\n	case session.InterruptDone:\n"}}},
		{name: "no process is locked out", judges: found, edits: []edit{
			{"app/locks.go", "	sessionLock, err := acquire(w.lockFile(id), self)\n", "	sessionLock, err := acquire(w.lockFile(id)+w.Now().Format(\".000000\"), self)\n"},
			{"app/locks.go", "		return nil, errors.Join(w.named(err), sessionLock.Release())\n",
				"		if errors.Is(err, session.ErrLocked) {\n			return []release{sessionLock}, nil\n		}\n		return nil, errors.Join(w.named(err), sessionLock.Release())\n"}}},
	}
}

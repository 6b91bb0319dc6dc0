package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// bug is a mistake planted into acode to check that a judge finds it.
type bug struct {
	name  string
	edits []edit
	// judges are the judges that must find it.
	judges []judge
	// shows is part of the finding; empty allows any.
	shows string
}

// edit replaces a text that occurs exactly once in a source file.
type edit struct{ file, old, new string }

// bugs returns the mistakes. Two of them show in no end state. If acode has a second
// defence that ends a session before anything is lost or repeated, some mistakes remove
// that defence too. The judge must then count the damage.
func bugs() []bug {
	return append([]bug{
		{name: "acknowledge before commit", judges: []judge{journalJudge()}, edits: []edit{{"engine/branch.go",
			"	b.onCommit = append(b.onCommit, n)\n", "	b.tell(n)\n"}}},
		{name: "acknowledge before the common commit", judges: []judge{besideJournalJudge()}, shows: "reported done: ", edits: []edit{{"engine/branch.go",
			"	b.onCommit = append(b.onCommit, n)\n", "	b.tell(n)\n"}}},
		{name: "drafts lost with another branch's refusal", judges: []judge{besideJudge()}, edits: []edit{
			{"engine/book.go", "	err := k.append(ctx, batch, k.e.Journal.Append)\n", "	err := k.append(ctx, batch[:1], k.e.Journal.Append)\n"}}},
		{name: "two intents on one path", judges: []judge{besideJudge()}, shows: "stuck: exit 17", edits: []edit{{"engine/paths.go",
			"	return p.free(b, it.ID, paths)\n", "	return true\n"}}},
		{name: "a second command not re-attached", judges: []judge{besideJudge()}, shows: "tasks are left", edits: []edit{{"engine/crew.go",
			"		if it.Action == session.ActionAttach {\n", "		if len(c.attach) > 0 {\n			continue\n		}\n		if it.Action == session.ActionAttach {\n"}}},
		{name: "a write-only pipe end", judges: []judge{outputJudge()}, shows: "lines of the ledger belong to no step", edits: []edit{{"provider/command/pipe_linux.go",
			"		s.end, err = unix.Open(path+pipeSuffix, unix.O_RDWR|", "		s.end, err = unix.Open(path+pipeSuffix, unix.O_WRONLY|"}}},
		{name: "read and write instead of splice", judges: []judge{outputJudge()}, shows: "of which ", edits: []edit{{"provider/command/pipe_linux.go",
			"		moved, err := unix.Splice(pipe, nil, int(s.file.Fd()), nil, limit, unix.SPLICE_F_NONBLOCK)\n",
			"		b := make([]byte, min(limit, little))\n		moved, err := unix.Read(pipe, b)\n		if err == nil {\n			_, err = s.file.Write(b[:moved])\n		}\n"}}},
		{name: "exit record before the pipe is empty", judges: []judge{burstJudge()}, shows: "captured ", edits: []edit{{"provider/command/ending.go",
			"	e.Lost = c.outs.drain()\n", "	e.Lost = \"\"\n"}}},
		{name: "exec before claim", judges: []judge{supervisorJudge()}, edits: execBeforeClaim()},
		{name: "exit reported before recorded", judges: []judge{orderJudge(), randomCutsJudge()}, edits: []edit{{"provider/command/ending.go",
			"	s.cfg.hook(\"ended\")\n", "	s.tell(c.req.Key)\n	s.cfg.hook(\"ended\")\n"}}},
		{name: "step key without task", judges: []judge{endJudge(), randomJudge()}, shows: "lost: ", edits: []edit{keyWithoutTask()}},
		{name: "claim without task", judges: []judge{endJudge()}, shows: "lost: collect-the-facts/sign-the-big-ledger", edits: claimWithoutTask()},
		{name: "resume that starts over", judges: []judge{endJudge(), randomJudge()}, shows: "stuck: ", edits: []edit{startOver()}},
		{name: "resume and journal that start over", judges: []judge{endJudge()},
			shows: "repeated: survey-the-premises/sign-the-big-ledger (2 times)", edits: append(journalOfAnything(), startOver())},
		{name: "no directory fsync", judges: append(diskJudges(), orderJudge(), imageJudge(), randomCutsJudge()), edits: []edit{{"workspace/apply.go",
			"		err = d.f.Sync()\n", "		_ = d.f\n"}}},
		{name: "end of a command before its effects", judges: append(diskJudges(), imageJudge(), randomCutsJudge()), edits: []edit{{"provider/command/sys_linux.go",
			"{ return unix.Syncfs(int(dir.Fd())) }", "{ return nil }"}}},
		{name: "commit without fsync", judges: append(diskJudges(), imageJudge()), edits: []edit{{"local/conn.go",
			`"synchronous(FULL)"`, `"synchronous(OFF)"`}}},
		{name: "files without fsync", judges: append(diskJudges(), imageJudge()), edits: []edit{{"workspace/temp.go",
			"	return f.Sync()\n", "	return nil\n"}}},
		{name: "raw outputs removed without fsync", judges: []judge{orderJudge(), randomCutsJudge()}, edits: []edit{{"provider/command/runner.go",
			"append(errs, syncDir(dir))...", "errs..."}}},
		{name: "rollback without fsync", judges: []judge{rollbackJudge()}, edits: []edit{{"workspace/rollback.go",
			"			if moved && !p.target.isPre()", "			if false && !p.target.isPre()"}, {"workspace/rollback.go",
			"	return v.sync(false)\n}\n\n// Tidy", "	return nil\n}\n\n// Tidy"}}},
		{name: "swap by renames", judges: []judge{randomJudge()}, edits: []edit{{"workspace/prepare.go",
			" || n.cur.origin == n || n.cur.origin.cur != nil {\n", " || n.cur.origin == n {\n"}}},
		{name: "half a group taken for none", judges: []judge{randomJudge()}, edits: []edit{{"resume/plan.go",
			"		it.Action, it.Why = session.ActionRollBack, \"partially written", "		it.Action, it.Why = session.ActionProceed, \"partially written"}}},
		{name: "a receipt of half of the file", judges: []judge{endJudge()}, shows: "sha256sum says", edits: []edit{{"workspace/read.go",
			"		states = append(states, f)\n", "		states = append(states[:0], f)\n"}}},
		{name: "a match on the line before", judges: []judge{endJudge()}, shows: "found other lines than grep", edits: []edit{{"workspace/search.go",
			"			m.add(name, line.Number, text)\n", "			m.add(name, line.Number-1, text)\n"}}},
		{name: "captures of any task", judges: []judge{randomJudge()}, edits: []edit{{"session/expand.go",
			"		if !above[i] {\n			continue\n		}\n", ""}}},
	}, slices.Concat(peopleBugs(), agentBugs(), promptBugs())...)
}

// keyWithoutTask gives steps with the same name in two tasks the same key.
func keyWithoutTask() edit {
	return edit{"session/id.go",
		`return fmt.Sprintf("v1:%s:%s/%s:%d", k.Session, k.Step.Of(), k.Operation, k.Attempt)`,
		`return fmt.Sprintf("v1:%s:%s/%s:%d", k.Session, "any/"+k.Step.Step, k.Operation, k.Attempt)`}
}

// claimWithoutTask gives such steps the same claim although their keys differ, so the
// second takes the record of the first for its own. A record's digest and the output of
// the receipt would prevent this, so the edits remove both checks.
func claimWithoutTask() []edit {
	return []edit{
		{"provider/command/claim.go", "	sum := sha256.Sum256([]byte(key))\n",
			"	first, rest, _ := bytes.Cut([]byte(key), []byte{'/'})\n	sum := sha256.Sum256(append(first[:bytes.LastIndexByte(first, ':')+1:len(first)], rest...))\n"},
		{"provider/command/request.go", "	}{req.Key, req.Dir, req.Argv, req.Confinement()})\n", "	}{\"\", req.Dir, req.Argv, req.Confinement()})\n"},
		{"provider/command/runner.go", "	if err := unix.Unlink(path); err != nil &&", "	if err := unix.Access(path, unix.F_OK); err != nil &&"},
	}
}

// startOver makes a resume plan completed steps again.
func startOver() edit {
	return edit{"resume/plan.go",
		`it.Action, it.Attempt, it.Why = session.ActionSkip, 0, "completed before"`,
		`it.Action, it.Attempt, it.Why = session.ActionExecute, it.Attempt+1, "completed before"`}
}

// journalOfAnything lets a completed step start again.
func journalOfAnything() []edit {
	return []edit{{"session/session.go",
		"	if st.Status == StepDone || d.Attempt != st.Attempt+1 {\n", "	if d.Attempt != st.Attempt+1 {\n"}}
}

// overlay returns an overlay with which the go command compiles the bug. It returns an
// error if a text to replace does not occur exactly once.
func (b bug) overlay(module, dir string) ([]byte, error) {
	texts := map[string]string{}
	for _, e := range b.edits {
		text, ok := texts[e.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(module, e.file))
			if err != nil {
				return nil, fmt.Errorf("plant %s: %w", b.name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("plant %s: %s holds the text to replace %d times, want once: %q", b.name, e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	replace := map[string]string{}
	for name, text := range texts {
		at := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("plant %s: %w", b.name, err)
		}
		replace[filepath.Join(module, name)] = at
	}
	return json.Marshal(map[string]any{"Replace": replace})
}

// build compiles acode with the bug into its own directory.
func (b bug) build(ctx context.Context, scratch string) (string, error) {
	dir := filepath.Join(scratch, "bug-"+strings.ReplaceAll(b.name, " ", "-"))
	module, err := moduleDir(ctx)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	o, err := b.overlay(module, dir)
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "acode")
	return at, build(ctx, at, o)
}

// plant builds the bug with the name only, or each bug, and asks its judges. It asks the
// same judges about unchanged acode.
func (h *harness) plant(ctx context.Context, only string) error {
	w := tabwriter.NewWriter(h.log, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "planted\tjudge\tfound")
	var errs []error
	clean := map[string]bool{}
	for _, b := range bugs() {
		if only != "" && b.name != only {
			continue
		}
		program, err := b.build(ctx, h.scratch)
		if err != nil {
			return err
		}
		for _, j := range b.judges {
			found, err := h.find(ctx, j, program)
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", b.name, j.name, firstLine(found))
			if found == "" || !strings.Contains(found, b.shows) {
				errs = append(errs, fmt.Errorf("%s finds %q of %q, which must show as %q", j.name, found, b.name, b.shows))
			}
			if clean[j.name] {
				continue
			}
			clean[j.name] = true
			if found, err = h.find(ctx, j, h.acode); found != "" || err != nil {
				errs = append(errs, fmt.Errorf("%s finds in acode as it is: %s: %w", j.name, found, err))
			}
			fmt.Fprintf(w, "nothing\t%s\t%s\n", j.name, firstLine(found))
		}
	}
	return errors.Join(append(errs, w.Flush())...)
}

// find lets a judge test a program, and removes the files that the judge kept.
func (h *harness) find(ctx context.Context, j judge, program string) (string, error) {
	own := h.quiet(program, "bug")
	found, err := j.find(ctx, own)
	return found, errors.Join(err, os.RemoveAll(own.scratch))
}

// quiet returns a harness for another program that prints no descriptions.
func (h *harness) quiet(program, name string) *harness {
	return &harness{acode: program, scratch: filepath.Join(h.scratch, name), seed: h.seed, workers: h.workers, plan: h.plan, log: io.Discard, now: h.now}
}

const foundShown = 100

func firstLine(s string) string {
	if s == "" {
		return "-"
	}
	line, _, _ := strings.Cut(s, "\n")
	if len(line) > foundShown {
		line = line[:foundShown] + "..."
	}
	return line
}

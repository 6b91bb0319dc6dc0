package people

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// The tests are in the package itself, because they judge processes and journals that no
// scenario produces on demand.

// A seed always gives the same scenario, except for its instants.
func TestScenariosAreDrawnAlike(t *testing.T) {
	for n := uint64(1); n <= 20; n++ {
		drawn := func() (model.Plan, []Act) {
			rng := rand.New(rand.NewPCG(1, 2<<32+n))
			p := model.DrawSlow(rng)
			return p, Draw(p, rng)
		}
		one, acts := drawn()
		again, others := drawn()
		if one.YAML() != again.YAML() || !slices.EqualFunc(acts, others, func(a, b Act) bool { return a.String() == b.String() }) {
			t.Errorf("scenario %d is another each time", n)
		}
	}
}

// The advice of acode contains the next command.
func TestProposals(t *testing.T) {
	tests := map[string]string{
		"acode resume w2y35b":                                      "[[resume w2y35b]]",
		"acode approve w2y35b && acode resume w2y35b":              "[[approve w2y35b] [resume w2y35b]]",
		"start one with: acode run FILE":                           "[[run FILE]]",
		"look, then: acode resume w2y35b " + truthful:              "[[resume w2y35b " + truthful + "]]",
		"acode resume w2y35b -C DIR, where DIR is where it is now": "[[resume w2y35b -C DIR]]",
		"look at the disk":                                         "[]",
	}
	for text, want := range tests {
		if got := fmt.Sprint(proposals(text)); got != want {
			t.Errorf("proposals(%q): got %s, want %s", text, got, want)
		}
	}
	if got, want := words(`-C '/a b'\''c'/d -x`), []string{"-C", "/a b'c/d", "-x"}; !slices.Equal(got, want) {
		t.Errorf("words: got %q, want %q", got, want)
	}
}

// The judge finds attempts that acted twice or without a record, gates without an
// approval, and failures without a cause.
func TestJudgeOfEffects(t *testing.T) {
	act := model.Fixed().Steps[3].Name()
	gate := "publish-the-result/ask-before-publishing"
	line := func(attempt int) string {
		return fmt.Sprintf("v1:01a1fdbc-b294-7906-ab4e-ce54abc4a0b4:%s/main:%d.\n", act, attempt)
	}
	done := map[string]string{act: "completed"}
	tests := map[string]struct {
		ledger                string
		now                   journal
		lost, repeated, wrong int
	}{
		"right":           {line(1), journal{status: done}, 0, 0, 0},
		"lost":            {"", journal{status: done}, 1, 0, 0},
		"one_key_twice":   {line(1) + line(1), journal{status: done}, 0, 2, 0},
		"without_a_cause": {line(1) + line(2), journal{status: done}, 0, 1, 0},
		"nobody_knew":     {line(1) + line(2), journal{status: done, events: []event{{kind: "StepUnknown", step: act, attempt: 1}}}, 0, 1, 0},
		"it_was_ended": {line(1) + line(2), journal{status: done, events: []event{{kind: "StepFailed", step: act, attempt: 1},
			{kind: "StepStarted", step: act, attempt: 2, by: "resume"}}}, 0, 0, 0},
		"its_check_said_no": {line(1) + line(2), journal{status: done, events: []event{{kind: "StepFailed", step: act, attempt: 1},
			{kind: "StepUnknown", step: act, attempt: 1}, {kind: "StepStarted", step: act, attempt: 2, by: "check"}}}, 0, 1, 0},
		"no_policy_says_so": {line(1) + line(2), journal{status: done, events: []event{{kind: "StepUnknown", step: act, attempt: 1},
			{kind: "StepStarted", step: act, attempt: 2, by: "policy"}}}, 0, 1, 0},
		"open_for_ever":   {"", journal{state: "cancelled", status: map[string]string{act: "in_progress"}}, 0, 0, 1},
		"dropped":         {line(1), journal{state: "cancelled", status: map[string]string{act: "failed"}, events: []event{{kind: "StepFailed", step: act, attempt: 1, code: codeCancelled}}}, 1, 0, 0},
		"not_dropped":     {line(1), journal{state: "cancelled", status: map[string]string{act: "uncertain"}, events: []event{{kind: "StepUnknown", step: act, attempt: 1}}}, 0, 0, 0},
		"nobody_ended_it": {line(1), journal{status: done, events: []event{{kind: "StepFailed", step: act, attempt: 2}, {kind: "StepFailed", step: act, attempt: 3}}}, 0, 0, 1},
		"strange_line":    {line(1) + "who?\n", journal{status: done}, 0, 0, 1},
		"two_receipts":    {line(1), journal{status: done, events: []event{{kind: "StepCompleted", step: act}, {kind: "StepCompleted", step: act}}}, 0, 1, 0},
		"another_epoch": {line(1), journal{status: done, events: []event{{kind: "ApprovalGranted", step: gate, usable: 2},
			{kind: "StepCompleted", step: gate, epoch: 3}}}, 0, 0, 1},
		"two_approvals": {line(1), journal{status: done, events: []event{{kind: "ApprovalGranted", step: gate, usable: 2}, {kind: "ApprovalGranted", step: gate, usable: 2}}}, 0, 0, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Scenario{approved: 1, ended: 1, now: tt.now}
			s.Place = scene.Place{Root: t.TempDir(), Plan: model.Fixed()}
			if err := errors.Join(s.Prepare(""), os.WriteFile(s.Ledger(), []byte(tt.ledger), 0o644), s.judgeEffects()); err != nil {
				t.Fatal(err)
			}
			if len(s.Lost) != tt.lost || len(s.Repeated) != tt.repeated || len(s.Wrong) != tt.wrong {
				t.Errorf("judgeEffects: got %s, want %d lost, %d repeated, %d wrong", s.Outcome, tt.lost, tt.repeated, tt.wrong)
			}
		})
	}
}

// The judge checks the output of every kind of process.
func TestJudgeOfWhatIsSaid(t *testing.T) {
	result := `{"type":"result","state":"paused","exit":%d,"next":"acode resume w2y35b"}` + "\n"
	tests := map[string]struct {
		args   []string
		script string
		wrong  int
	}{
		"right":          {[]string{"resume", jsonFlag}, "printf '" + fmt.Sprintf(result, 22) + "'; exit 22", 0},
		"another_status": {[]string{"resume", jsonFlag}, "printf '" + fmt.Sprintf(result, 22) + "'; exit 20", 1},
		"no_result":      {[]string{"resume", jsonFlag}, "echo '{}'", 1},
		"no_json":        {[]string{"status", jsonFlag}, "echo hello", 1},
		"unknown_status": {[]string{"status"}, "exit 18", 1},
		"a_crash":        {[]string{"status"}, "echo 'panic: oops' >&2; exit 2", 1},
		"no_value":       {[]string{"status"}, "echo 'since %!s(<nil>)'", 1},
		"nobody_did_it":  {[]string{"status"}, "kill -9 $$", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &typed{args: tt.args, cmd: exec.Command("/bin/sh", "-c", tt.script)}
			p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
			p.failed = p.cmd.Run()
			var wrong []string
			p.judge(func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) })
			if len(wrong) != tt.wrong {
				t.Errorf("judge: got %q, want %d of them", wrong, tt.wrong)
			}
		})
	}
}

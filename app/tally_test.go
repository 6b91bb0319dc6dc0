package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acode-dev/acode/session"
)

// The tally of a resume uses only keys that metrics list.
func TestTallyOfResumes(t *testing.T) {
	listed := map[session.WorkKey]bool{}
	for _, k := range session.WorkKeys() {
		listed[k] = true
	}
	key := func(mode, outcome string) session.WorkKey {
		return session.WorkKey{Kind: session.WorkResumes, Mode: mode, Outcome: outcome}
	}
	killed := key(session.ResumeNone, session.ResumeInterrupted)
	for _, c := range []struct {
		found session.State
		epoch uint64
		left  session.State
		want  []session.WorkKey
	}{
		{session.Paused, 1, session.Completed, []session.WorkKey{key(session.ResumeContinue, session.ResumeCompleted)}},
		{session.Paused, 4, session.Paused, []session.WorkKey{key(session.ResumeContinue, session.ResumePaused)}},
		{session.AwaitingApproval, 2, session.AwaitingApproval, []session.WorkKey{key(session.ResumeContinue, session.ResumeApproval)}},
		{session.Executing, 1, session.Failed, []session.WorkKey{key(session.ResumeRecover, session.ResumeFailed)}},
		{session.Executing, 2, session.Cancelled, []session.WorkKey{key(session.ResumeRecover, session.ResumeCancelled), killed}},
		{session.Executing, 2, session.Executing, []session.WorkKey{killed}},
	} {
		var got tally
		got.found(&session.Session{State: c.found, Epoch: c.epoch})
		got.resumed(c.left)
		want := map[session.WorkKey]uint64{}
		for _, k := range c.want {
			if want[k] = 1; !listed[k] {
				t.Errorf("%+v is not listed", k)
			}
		}
		if diff := cmp.Diff(want, got.Counts); diff != "" {
			t.Errorf("found %s in epoch %d, left %s (-want +got):\n%s", c.found, c.epoch, c.left, diff)
		}
	}
}

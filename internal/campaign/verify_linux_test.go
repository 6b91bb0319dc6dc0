package campaign_test

import "testing"

// A1: verify passes a session that executes meanwhile. The session's new commits are
// newer than the state that verify compares, and are no damage.
func TestVerifyWhileItRuns(t *testing.T) {
	t.Parallel()
	plan, steps, files := signPlan(40, "true")
	s := newSite(t, scratch(t), plan, nil)
	p := s.start(t, "run", "--plan", s.plan())
	eventually(t, "the first command runs", func() bool { return s.inLedger(t, "begin") })
	ended := make(chan ended, 1)
	go func() { ended <- p.wait(t) }()
	for n := 0; ; n++ {
		if e := s.acode(t, "verify"); e.exit != 0 {
			t.Errorf("verify %d: %v", n+1, e)
		}
		select {
		case e := <-ended:
			if e.exit != 0 || n == 0 {
				t.Errorf("%v; want exit 0 and more than one look while it runs: %d", e, n)
			}
			s.whole(t, steps, files)
			return
		default:
		}
	}
}

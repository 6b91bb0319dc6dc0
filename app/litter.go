package app

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// tidy removes what stays of an acode that was killed here, before session id goes on: contents
// that it had not written to their end, and the raw outputs of another session, if that was over
// by then. What cannot be removed stays. It reports whether one was killed, as far as the locks tell.
func (w *work) tidy(ctx context.Context, id session.ID) (killed bool) {
	var errs []error
	for _, l := range w.locks {
		if l.Killed().PID == 0 {
			continue
		}
		killed = true
		if l.Killed().Session != id {
			errs = append(errs, w.forgetOver(ctx, l.Killed().Session))
		}
	}
	if killed {
		errs = append(errs, w.store.Sweep())
	}
	w.litter(errors.Join(errs...))
	return killed
}

// sweepAfter removes what a process left that ended while a session was in state, with nobody to
// execute it now: a power cut may have taken what the locks said.
func (s *Site) sweepAfter(state session.State) {
	if underWay(state) {
		s.litter(s.store.Sweep())
	}
}

// litter logs that what a killed process left could not be removed; nil: it was.
func (s *Site) litter(err error) {
	if err != nil {
		s.Log.Warn("what a killed process left stays", "event", "litter_left", "error", err.Error())
	}
}

// sweepWorkspace removes temporary files of earlier steps, which a power cut can bring back.
func (w *work) sweepWorkspace(root *workspace.Root) {
	w.litter(root.Sweep(w.written(), w.keysOver))
}

// written lists the directories that the session wrote files into.
func (w *work) written() []string {
	all := map[string]bool{}
	for name, f := range w.writer.Session().Files {
		if f.Wrote {
			all[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// keysOver gives the keys of all attempts but those in progress, whose temporary files tell how far they
// came.
func (w *work) keysOver() (keys []string) {
	s := w.writer.Session()
	for id, st := range s.Steps {
		last := st.Attempt
		if st.Status == session.InProgress {
			last--
		}
		for n := range last {
			keys = append(keys, session.Key{Session: s.ID, Step: id, Operation: session.OpMain, Attempt: n + 1}.String())
		}
	}
	return keys
}

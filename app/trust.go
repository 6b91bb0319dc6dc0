package app

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/trust"
)

// Trust is what the workspace would tell models, and whether a person trusts it.
type Trust struct {
	trust.Seen
	// Trusted says that a person trusts exactly this. Before says that a person trusted
	// the workspace, perhaps with other content.
	Trusted, Before bool
}

// Names returns the paths of the files.
func (t Trust) Names() string {
	var names []string
	for _, f := range t.Files {
		names = append(names, f.Path)
	}
	return strings.Join(names, " and ")
}

// Masked returns t as a person may see it, without secrets.
func (t Trust) Masked(mask func(string) string) Trust {
	t.Files = slices.Clone(t.Files)
	for i := range t.Files {
		t.Files[i].Text = mask(t.Files[i].Text)
	}
	return t
}

func (s *Setup) trustStore() trust.Store {
	return trust.Store{Dir: filepath.Join(s.home(), "trust")}
}

// Trust reads what the workspace would tell models.
func (s *Setup) Trust() (t Trust, err error) {
	if t.Seen, err = trust.Look(s.Workspace); err == nil {
		t.Trusted, t.Before, err = s.trustStore().Trusts(t.Seen)
	}
	return t, err
}

// BindTrust records that a person trusts exactly t. It is durable when BindTrust returns.
func (s *Setup) BindTrust(t Trust, by string) error {
	return s.trustStore().Bind(t.Seen, by, s.Now())
}

// RevokeTrust removes the trust in the workspace. It reports whether there was one.
func (s *Setup) RevokeTrust() (bool, error) { return s.trustStore().Revoke(s.Workspace) }

// askTrust asks the person once whether models may get the files of the workspace, if a
// prompt is about to begin. Where no one can be asked, the prompt warns.
func (w *work) askTrust(ctx context.Context) error {
	begins := false
	for id, step := range w.plan.All() {
		begins = begins || step.Kind == session.KindPrompt && w.writer.Session().Status(id) == session.Pending
	}
	if !begins || w.trustAsked {
		return nil
	}
	t, err := w.Trust()
	if err != nil || t.Trusted || len(t.Files) == 0 { // trusted warns about the error
		return nil
	}
	w.trustAsked = true
	a, err := w.door.Trust(ctx, t.Masked(w.Redactor.String))
	switch {
	case errors.Is(err, session.ErrApproval):
		return nil
	case err != nil:
		return err
	case a.Granted:
		return w.BindTrust(t, a.By)
	}
	w.mistrust.Do(func() {}) // the person knows
	return nil
}

// trusted returns the files of the workspace that a person trusts now. It warns once if
// there are others.
func (w *work) trusted(context.Context) []session.TrustedFile {
	t, err := w.Trust()
	switch {
	case err != nil:
		w.mistrusts(session.Notice{Text: err.Error()})
	case len(t.Files) > 0 && !t.Trusted && t.Before:
		w.mistrusts(session.Notice{Text: t.Names() + " changed since a person trusted this workspace, so models do not get it", Hint: w.toTrust()})
	case len(t.Files) > 0 && !t.Trusted:
		w.mistrusts(session.Notice{Text: "no one trusts " + t.Names() + " of this workspace yet, so models do not get it", Hint: w.toTrust()})
	case len(t.Refused) > 0:
		w.mistrusts(session.Notice{Text: "models do not get a file of this workspace: " + strings.Join(t.Refused, "; ")})
	}
	if err != nil || !t.Trusted {
		return nil
	}
	return t.Files
}

func (w *work) toTrust() session.Hint {
	return session.Hint{Text: "to see and trust it", Do: session.MoveTrust, Path: w.Workspace}
}

func (w *work) mistrusts(n session.Notice) {
	n.Kind = session.NoticeWarning
	w.mistrust.Do(func() { w.door.Notice(n) })
}

package cli

import (
	"context"
	"fmt"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

// decideHeld shows the held changes of a call and records the verdict about them. Before
// it applies them it asks the person, if there is a terminal.
func (i *Invocation) decideHeld(ctx context.Context, s *app.Site, h app.Held, v app.Verdict) error {
	if !i.JSON {
		if _, err := fmt.Fprint(i.Out, terminal.HeldText(h)); err != nil {
			return err
		}
	}
	if v.Grant && i.interactive() && !h.Session.State.Terminal() {
		yes, err := unlessEnded(terminal.Approve(i.in, i.Err, "Apply these changes?"))
		if err != nil {
			return err
		}
		if !yes {
			return &session.Error{Code: session.ErrApproval, Message: "the changes were not applied, and they still wait; nothing was changed", Next: session.Words("drop them with a denial, or decide later")}
		}
	}
	if err := s.DecideHeld(ctx, h, v); err != nil {
		return err
	}
	d := app.Decision{Session: h.Session, Kind: session.RequestDeny, Recorded: true}
	text := "Dropped: the files stay as they are"
	if v.Grant {
		d.Kind, text = session.RequestApprove, "Applied: the files are as "+h.Op.Op+" had left them"
	}
	return i.tell(string(d.Kind), d, text)
}

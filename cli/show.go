package cli

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show [ID]", Short: "Show a session with every step", Long: "Show a session with every step, and the end of what the command of a failed step wrote.\nWith -v more of it, and what the other commands wrote and the searches found.",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeSession(anySession),
		RunE: a.readingSession(func(ctx context.Context, b *base, s *local.Store, id session.ID) error {
			v, err := b.showView(ctx, s, id)
			if err != nil {
				return err
			}
			if b.json {
				return terminal.ShowJSON(b.io.out, v)
			}
			return terminal.Show(b.io.out, v)
		}),
	}
}

func (b *base) showView(ctx context.Context, s *local.Store, id session.ID) (terminal.ShowView, error) {
	var v terminal.ShowView
	var err error
	if v.StatusView, err = b.statusView(ctx, s, id); err != nil {
		return v, err
	}
	sess, p, next, err := b.outlook(ctx, s, id)
	if err != nil {
		return v, err
	}
	for _, t := range p.Tasks {
		v.Titles = append(v.Titles, b.redactor.String(cmp.Or(t.Title, t.ID)))
	}
	for _, it := range next.Items {
		step := terminal.StepView{Item: it}
		if st := sess.Steps[it.ID]; st != nil {
			step.Code, step.Message, step.Item.Attempt = st.Code, st.Message, st.Attempt // not the next attempt
			if st.EndedUS > 0 {
				step.Item.Took = time.Duration(st.EndedUS-st.StartedUS) * time.Microsecond
			}
			if st.Status == session.StepFailed || st.Status == session.StepDone && b.verbose > 0 {
				step.Output = b.wrote(ctx, s, id, st.LastSeq)
			}
		}
		v.Steps = append(v.Steps, step)
	}
	return v, nil
}

// wrote gives the end of what a step wrote or found, as the receipt in event seq keeps it. Of a
// command that is its standard error, else its standard output; with -v both, and more of them.
func (b *base) wrote(ctx context.Context, s *local.Store, id session.ID, seq uint64) []string {
	outputs, err := b.outputs(ctx, s, id, seq)
	count, limit := 5, 4<<10
	if b.verbose > 0 {
		count, limit = 200, 0
	}
	var lines []string
	for _, o := range outputs {
		var text string
		if text, err = content(ctx, s, o); err != nil {
			break
		}
		lines = append(lines, session.LastLines(text, count, limit)...)
		if len(lines) > 0 && b.verbose == 0 {
			break
		}
	}
	if err != nil {
		return []string{"what it wrote cannot be read: " + err.Error()}
	}
	return lines
}

// outputs gives those that a receipt keeps, in the order in which they are looked at.
func (b *base) outputs(ctx context.Context, s *local.Store, id session.ID, seq uint64) ([]session.Output, error) {
	events, err := s.Events(ctx, id, seq-1, 1)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	var receipt struct {
		Command *session.CommandResult `json:"command"`
		Matches *session.Output        `json:"matches"`
	}
	err = events[0].Decode(&receipt)
	switch c := receipt.Command; {
	case c != nil && b.verbose > 0:
		return []session.Output{c.Stdout, c.Stderr}, err
	case c != nil:
		return []session.Output{c.Stderr, c.Stdout}, err
	case receipt.Matches != nil:
		return []session.Output{*receipt.Matches}, err
	}
	return nil, err
}

// content is what was kept of an output.
func content(ctx context.Context, s *local.Store, o session.Output) (string, error) {
	if o.Blob.Hash == "" {
		return o.Text, nil
	}
	r, err := s.OpenBlob(ctx, o.Blob.Hash)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

package cli

import (
	"slices"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/terminal"
)

// What app gives, as terminal shows it.

// DeliveryView is how delivery stands.
func (i *Invocation) DeliveryView(d app.Delivery) terminal.SyncView {
	v := terminal.SyncView{
		State: d.State, Link: d.Link, Reason: d.Reason, Pending: d.Events, Sessions: d.Sessions, SinceUS: d.SinceUS, OldestUS: d.OldestUS,
		LastUS: d.LastUS, AttemptUS: d.AttemptUS, NextUS: d.NextUS, Paused: d.Paused, Verified: d.Verified, Acked: d.Acked,
		Server: d.Address, Identity: d.Remote, Now: d.Now, Spell: i.Spell,
	}
	if d.Delivers {
		v.Drainer = &terminal.Drainer{PID: d.PID, Command: d.Command, BeatUS: d.BeatUS}
	}
	for _, l := range d.Lanes {
		v.Lanes = append(v.Lanes, terminal.LaneView(l))
	}
	return v
}

func rowViews(rows []app.Row) []terminal.Row {
	out := make([]terminal.Row, len(rows))
	for i, r := range rows {
		out[i] = terminal.Row(r)
	}
	return out
}

func holderView(h *app.Holder) *terminal.Holder {
	if h == nil {
		return nil
	}
	return &terminal.Holder{PID: h.PID, Elsewhere: h.Elsewhere(), Host: h.Host, Since: h.Since, Command: h.Command}
}

func (i *Invocation) statusView(s app.Status) terminal.StatusView {
	return terminal.StatusView{
		Row: terminal.Row(s.Row), At: terminal.Position(s.At), Detail: s.Detail, Holder: holderView(s.Holder),
		Notes: s.Notes, Gate: s.Gate, Sync: i.DeliveryView(s.Delivery), Next: i.Spell(s.Next),
	}
}

func (i *Invocation) detailsView(d app.Details) terminal.ShowView {
	v := terminal.ShowView{StatusView: i.statusView(d.Status), Titles: d.Titles}
	for _, step := range d.Steps {
		v.Steps = append(v.Steps, terminal.StepView(step))
	}
	return v
}

func (i *Invocation) forecastView(f app.Forecast) terminal.DryRunView {
	warnings := f.Warnings
	if !f.Edited.IsZero() {
		warnings = append(slices.Clone(warnings), i.Spell(f.Edited))
	}
	return terminal.DryRunView{
		ID: f.Session.ID, Short: f.Session.Short, State: f.Session.State, Checkpoint: terminal.Position(f.Checkpoint), Next: &f.Next,
		Changed: f.Changed, Warnings: warnings, Sync: i.DeliveryView(f.Delivery),
	}
}

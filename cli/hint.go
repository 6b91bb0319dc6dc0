package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// move describes how to type a move: the command, its subject, then the rest.
type move struct {
	// Command is empty for the same command again, with Rest added.
	Command string
	// About replaces an unknown session or file; empty when it may be left out.
	About string
	Rest  string
}

// moves lists how to type each move. Nothing else in the program spells a command.
func moves() map[session.Move]move {
	return map[session.Move]move{
		session.MoveRun:            {Command: "run", About: "FILE"},
		session.MoveResume:         {Command: "resume", About: "ID"},
		session.MoveResumeIn:       {Command: "resume", About: "ID", Rest: "-C DIR"},
		session.MoveWait:           {Command: "resume", About: "ID", Rest: "--wait"},
		session.MoveForecast:       {Command: "resume --dry-run", About: "ID"},
		session.MoveDecideChanges:  {Command: "resume", About: "ID", Rest: "--on-changes=<continue|abort>"},
		session.MoveMoreTurns:      {Command: "resume", About: "ID", Rest: "--max-turns=N"},
		session.MoveMoreTokens:     {Command: "resume", About: "ID", Rest: "--tokens=N"},
		session.MoveMoreBudget:     {Command: "resume", About: "ID", Rest: "--budget=N"},
		session.MoveChooseModel:    {Command: "resume", About: "ID", Rest: "--model=NAME"},
		session.MoveAnswer:         {Command: "resume", About: "ID", Rest: "--uncertain=<rerun|done|fail>"},
		session.MoveGiveValue:      {Command: "resume", About: "ID", Rest: "--uncertain=<rerun|fail> or --capture STEP=VALUE"},
		session.MoveApprove:        {Command: "approve", About: "ID"},
		session.MoveStatus:         {Command: "status"},
		session.MoveHistory:        {Command: "history", About: "ID"},
		session.MoveShow:           {Command: "session show", About: "ID"},
		session.MoveLogs:           {Command: "logs", About: "ID"},
		session.MoveList:           {Command: "ls --all"},
		session.MoveListHere:       {Command: "ls --resumable"},
		session.MoveListResumable:  {Command: "ls --resumable --all"},
		session.MoveVerify:         {Command: "verify"},
		session.MoveUnlock:         {Command: "session unlock"},
		session.MoveTrust:          {Command: "trust"},
		session.MoveCancel:         {Command: "cancel", About: "ID"},
		session.MoveCancelCommand:  {Command: "cancel --command", About: "ID"},
		session.MoveShareWorkspace: {Rest: "--share-workspace"},
		session.MoveWorkIn:         {Rest: "-C DIR"},
		session.MoveAllowWorkspace: {Rest: "--allow-workspace DIR"},
		session.MoveSyncStatus:     {Command: "sync status"},
		session.MoveSyncNow:        {Command: "sync now"},
		session.MoveSyncUnpause:    {Command: "sync unpause"},
		session.MoveSyncRebind:     {Command: "sync rebind"},
		session.MoveSyncParked:     {Command: "sync parked list"},
		session.MoveForkOff:        {Command: "sync fork-off", About: "ID"},
		session.MoveMigrate:        {Command: "admin migrate"},
		session.MoveDevices:        {Command: "admin device list"},
		session.MoveCheckConfig:    {Command: "config validate"},
		session.MovePlanSchema:     {Command: "schema plan"},
		session.MoveConfigSchema:   {Command: "schema config"},
		session.MoveHelp:           {Rest: "acode --help"},
	}
}

// Spell returns h as a person types it.
func (i *Invocation) Spell(h session.Hint) string {
	switch {
	case h.Do == "":
		return h.Text
	case h.Text == "":
		return i.typed(h)
	}
	return h.Text + ": " + i.typed(h)
}

func (i *Invocation) typed(h session.Hint) string {
	as := func(m session.Move) string { h.Do = m; return i.typed(h) }
	switch h.Do {
	case session.MoveApproveResume:
		return as(session.MoveApprove) + " && " + as(session.MoveResume)
	case session.MoveBeginAgain:
		return as(session.MoveCancel) + ", then " + as(session.MoveRun)
	}
	m := moves()[h.Do]
	rest := m.Rest
	switch h.Do {
	case session.MoveAllowWorkspace:
		rest = strings.Replace(rest, "DIR", quoted(h.Path, "DIR"), 1)
	case session.MoveApprove, session.MoveLogs:
		rest = strings.Trim(h.Step.String(), "/")
	case session.MoveTrust:
		rest = quoted(h.Path, "")
	case session.MoveGiveValue:
		rest = strings.Replace(rest, "STEP", h.Step.String(), 1)
	}
	if m.Command == "" {
		return rest
	}
	words := []string{"acode", i.flagsOf(m.Command), m.Command, about(m, h), rest}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// about returns the subject of a command. A move to another directory adds -C and that
// directory to the session.
func about(m move, h session.Hint) string {
	switch {
	case h.Do == session.MoveRun:
		return quoted(h.Path, m.About)
	case h.Path != "" && strings.HasPrefix(m.Command, "resume"):
		return cmp.Or(h.Session, m.About) + " -C " + session.ShellQuote(h.Path)
	}
	return cmp.Or(h.Session, m.About)
}

func quoted(path, otherwise string) string {
	if path == "" {
		return otherwise
	}
	return session.ShellQuote(path)
}

// flagsOf returns the flags of this command line that select the configuration and allow
// the workspace. A command that a person copies from a hint needs them to act on the same
// store.
func (i *Invocation) flagsOf(command string) string {
	verb, _, _ := strings.Cut(command, " ")
	if verb == "admin" || verb == "schema" {
		return ""
	}
	var flags []string
	if i.config != "" {
		flags = append(flags, "--config "+session.ShellQuote(i.config))
	}
	if verb == "run" || verb == "resume" {
		for _, dir := range i.allow {
			flags = append(flags, "--allow-workspace "+session.ShellQuote(dir))
		}
	}
	return strings.Join(flags, " ")
}

// Own returns the next command that err itself carries; empty for none.
func (i *Invocation) Own(err error) string {
	var e *session.Error
	if !errors.As(err, &e) {
		return ""
	}
	return i.Spell(e.Next)
}

// verdict returns the exit status of err and a hint about the next command.
func (i *Invocation) verdict(err error) (status int, hint string) {
	hint = i.Own(err)
	var said quietExit
	if err != nil && !errors.As(err, &said) {
		hint = cmp.Or(hint, i.Spell(app.Hint(err)))
	}
	return exitOf(err), hint
}

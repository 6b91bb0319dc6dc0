package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
)

// resumeFlags are the flags of resume as typed.
type resumeFlags struct {
	dryRun, restartStep, force, share bool
	wait                              time.Duration
	// waits reports whether --wait was given.
	waits                            bool
	onChanges, inProgress, uncertain string
	env                              string
	// after is the epoch that the session must be in; -1 for any.
	after int64
	// given holds the values of --capture as typed.
	given []string
	// unsure holds the values of --uncertain as typed.
	unsure   []string
	parallel int
	model    string
	allow    []string
	most     limitFlags
	outcomes map[session.StepID]session.OnInterrupt
	captures map[session.StepID]string
}

func (i *Invocation) resumeCommand() *cobra.Command {
	var f resumeFlags
	cmd := &cobra.Command{
		Use: "resume [ID]", Short: "Resume a session from where it stopped", Args: Following("wait", cobra.MaximumNArgs(1)), ValidArgsFunction: i.completeSession(openSession),
		Long: "Resume a session from where it stopped. Completed work is skipped, the step that was in\nprogress is examined, and the rest is executed. Without ID, it resumes the most recent resumable\nsession of this workspace. With ID, it works in the workspace of that session wherever you are;\n-C DIR continues in a workspace that has moved there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.waits = cmd.Flags().Changed("wait")
			if err := f.check(); err != nil {
				return err
			}
			return i.resume(cmd.Context(), strings.Join(args, ""), f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and change nothing")
	fl.DurationVar(&f.wait, "wait", 0, "wait at most this long while the session or the workspace is in use")
	fl.Lookup("wait").NoOptDefVal = "60s"
	for _, c := range f.answers() {
		fl.StringVar(c.value, c.flag, "", c.about+": `"+c.allowed+"`")
		completeValues(cmd, c.flag, c.allowed)
	}
	fl.StringArrayVar(&f.unsure, "uncertain", nil, "the commands in progress whose outcome is unknown, or one of them: `[TASK/STEP=]rerun|done|fail`")
	completeValues(cmd, "uncertain", outcomes)
	defineParallel(cmd, &f.parallel, "the default is the number at the start of the session")
	fl.StringVar(&f.model, "model", "", "the `name` of the model that all remaining prompts ask")
	defineAllow(cmd, &f.allow)
	f.most.define(cmd)
	fl.StringArrayVar(&f.given, "capture", nil, "the value of an interrupted command with capture, as `TASK/STEP=VALUE`: it happened and wrote this")
	fl.BoolVar(&f.restartStep, "restart-step", false, "roll back the file step that was in progress even if it is complete")
	fl.BoolVar(&f.force, "force", false, "skip dependency checks and continue with changed files; never skips the chain, approvals or locks")
	fl.Int64Var(&f.after, afterFlag, -1, "continue only from this `epoch`")
	hide(cmd, afterFlag)
	fl.BoolVar(&f.share, "share-workspace", false, "resume although another session executes in this workspace")
	return cmd
}

// Following returns args with one more check: while flag is given, no argument may be a
// duration. The value of such a flag may be left out, so it must follow "=".
func Following(flag string, args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		for _, arg := range given {
			if _, err := time.ParseDuration(arg); err == nil && cmd.Flags().Changed(flag) {
				return &session.Error{Code: session.ErrUsage, Message: "the time of --" + flag + " follows a \"=\"; nothing was changed", Place: arg,
					Next: session.Words("write --" + flag + "=" + arg)}
			}
		}
		return args(cmd, given)
	}
}

// answerFlag is a flag that takes one of a few values, which allowed separates with "|".
type answerFlag struct {
	value *string
	// key is its key in the configuration, if it has one.
	flag, about, allowed, key string
}

// answers returns the flags that answer the questions of a resume.
func (f *resumeFlags) answers() []answerFlag {
	return []answerFlag{
		{&f.onChanges, "on-changes", "changed files", "continue|abort", "resume.changed_files_action"},
		{&f.inProgress, "in-progress", "a file step in progress whose files hold something else", "rollback|retry|prompt", "resume.in_progress_strategy"},
		{&f.env, "env", "variables that commands read: take the present values, not those of the start", "current", ""},
	}
}

// outcomes are the values of --uncertain.
const outcomes = "rerun|done|fail"

func (f *resumeFlags) check() error {
	for _, c := range f.answers() {
		if *c.value != "" && !strings.Contains("|"+c.allowed+"|", "|"+*c.value+"|") {
			return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--%s=%s: must be one of %s; nothing was changed", c.flag, *c.value, c.allowed), Next: session.Words("acode resume --help")}
		}
	}
	if err := errors.Join(parallelFits(f.parallel), allowed(f.allow, map[string]string{})); err != nil {
		return err
	}
	f.outcomes = map[session.StepID]session.OnInterrupt{}
	for _, given := range f.unsure {
		step, answer, one := strings.Cut(given, "=")
		id, err := session.ParseStepID(step)
		if !one {
			f.uncertain, answer, err = given, given, nil
		}
		if err != nil || !strings.Contains("|"+outcomes+"|", "|"+answer+"|") {
			return &session.Error{Code: session.ErrUsage, Message: fmt.Sprintf("--uncertain=%s: must be one of %s; nothing was changed", given, outcomes), Next: session.Words("write TASK/STEP=done to answer for one step; acode resume --help")}
		}
		if one {
			f.outcomes[id] = session.OnInterrupt(answer)
		}
	}
	f.captures = map[session.StepID]string{}
	for _, given := range f.given {
		step, value, ok := strings.Cut(given, "=")
		id, err := session.ParseStepID(step)
		if !ok || err != nil {
			return &session.Error{Code: session.ErrUsage, Message: "--capture takes TASK/STEP=VALUE; nothing was changed", Place: given, Next: session.Words("acode resume --help")}
		}
		if f.captures[id], err = session.CaptureValue(step, value); err != nil {
			return &session.Error{Code: session.ErrUsage, Message: "--capture: the value cannot be used; nothing was changed", Cause: err}
		}
	}
	return nil
}

func (f resumeFlags) choices() app.Choices {
	return app.Choices{Captures: f.captures, Uncertain: session.OnInterrupt(f.uncertain), Outcomes: f.outcomes, MaxParallel: f.parallel, Model: f.model, RestartStep: f.restartStep, Force: f.force, Renew: f.env != "", Explicit: f.onChanges != "" || f.force, Edited: edited}
}

// settings returns the values of the flags that have a key in the configuration.
func (f resumeFlags) settings() map[string]string {
	out := map[string]string{}
	if f.force {
		out["resume.changed_files_action"] = app.ContinueOnChanges
	}
	for _, c := range f.answers() {
		if *c.value != "" && c.key != "" {
			out[c.key] = *c.value
		}
	}
	f.most.settings(out)
	_ = allowed(f.allow, out) // check has refused unknown names
	if f.share {
		out["workspace.share"] = "true"
	}
	if f.waits {
		out["lock.wait"] = f.wait.String()
	}
	return out
}

func (i *Invocation) resume(ctx context.Context, ref string, f resumeFlags) error {
	s, err := i.openFor(ctx, ref, f.dryRun, f.settings())
	// There is no store yet.
	if errors.Is(err, session.ErrUnknownID) {
		return app.NoResumable()
	}
	if err != nil {
		if !f.dryRun {
			i.refusedEarly(ref, err)
		}
		return err
	}
	if f.dryRun {
		would, err := s.Forecast(ctx, ref, f.choices())
		if err == nil {
			err = i.Page().DryRun(would)
		}
		return errors.Join(err, s.Close())
	}
	d := i.screen(s, false)
	o := app.Resume{Ref: ref, Timeout: i.timeout, Choices: f.choices()}
	if after := uint64(f.after); f.after >= 0 {
		o.After = &after
	}
	out, err := s.Resume(ctx, d.door(), o)
	if errors.Is(err, app.ErrNeedsModels) {
		return errors.Join(s.Close(), i.handOverSession(ref, out.Session))
	}
	return d.finish(ctx, out, errors.Join(err, s.Close()))
}

// handOverSession passes a session whose steps ask a model on to the program that links
// models. ref is as typed; it may have been left out.
func (i *Invocation) handOverSession(ref string, sess *session.Session) error {
	if ref != "" {
		return i.handOver(agentProgram)
	}
	return i.handOver(agentProgram, string(sess.ID))
}

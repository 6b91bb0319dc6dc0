package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// Model is a model that prompt steps ask.
type Model = engine.Model

// Conversation is what a prompt step has said and done so far.
type Conversation = engine.Conversation

// Talks is what a program links to execute prompt steps.
type Talks struct {
	// Model makes the model of a name from its configuration.
	Model func(name string, c config.Model) (Model, error)
	// Plan parses a plan that a model proposes.
	Plan func(raw []byte) (*session.Plan, error)
	// Converse returns an empty conversation of a prompt step that
	// works in the directory dir.
	Converse func(step session.StepID, p *session.Prompt, dir string) Conversation
}

// ErrNeedsModels is the error of a session whose remaining steps ask a model, in a
// program that links none. Nothing was changed. The Outcome has the session.
var ErrNeedsModels = errors.New("the steps ask a model, which this program cannot")

// Asks reports whether steps of p that are not completed ask a model. A nil sess means
// that none is completed.
func Asks(p *session.Plan, sess *session.Session) bool {
	for id, step := range p.All() {
		if step.Kind == session.KindPrompt && (sess == nil || sess.Status(id) != session.StepDone) {
			return true
		}
	}
	return false
}

// asks reports whether this process may ask a model.
func (w *work) asks() bool { return w.Talks != nil && Asks(w.plan, w.writer.Session()) }

// fillModels returns a copy of p in which every prompt names its model. It returns
// ErrConfig if a model is not configured.
func (s *Site) fillModels(p *session.Plan) (*session.Plan, error) {
	if !Asks(p, nil) {
		return p, nil
	}
	filled := *p
	filled.Tasks = slices.Clone(p.Tasks)
	for i := range filled.Tasks {
		steps := slices.Clone(filled.Tasks[i].Steps)
		for j := range steps {
			if steps[j].Prompt == nil {
				continue
			}
			prompt := *steps[j].Prompt
			prompt.Model = cmp.Or(prompt.Model, s.Settings.Config.Model)
			if _, err := s.model(prompt.Model); err != nil {
				return nil, err
			}
			steps[j].Prompt = &prompt
		}
		filled.Tasks[i].Steps = steps
	}
	return &filled, nil
}

// model returns the model of a name. It returns ErrConfig if it is not configured.
func (s *Site) model(name string) (engine.Model, error) {
	c, ok := s.Settings.Config.Models[name]
	switch {
	case s.Talks == nil:
		return nil, ErrNeedsModels
	case name == "":
		return nil, &session.Error{Code: session.ErrConfig, Message: "a model is needed, and none is chosen; nothing was changed",
			Next: session.Then("name one as model in the plan or in your configuration; to see its format", session.MoveConfigSchema, "")}
	case !ok:
		return nil, &session.Error{Code: session.ErrConfig, Message: fmt.Sprintf("the model %q is not configured; nothing was changed", name),
			Next: session.Words("add it to models in your configuration; the models there: " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.Settings.Config.Models)), ", "), "none"))}
	}
	return s.Talks.Model(name, c)
}

// modelsThere returns ErrEnvironment if a model that the remaining steps ask is not
// configured any more.
func (w *work) modelsThere() error {
	for id, step := range w.plan.All() {
		if step.Prompt == nil || w.writer.Session().Status(id) == session.StepDone {
			continue
		}
		_, err := w.model(cmp.Or(w.choices.Model, step.Prompt.Model))
		var e *session.Error
		if errors.As(err, &e) {
			return &session.Error{Code: session.ErrEnvironment, Message: fmt.Sprintf("%s: %s", id, e.Message), Next: e.Next}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prompting returns what prompt steps need.
func (w *work) prompting(root *workspace.Root) (engine.Prompting, error) {
	if !w.asks() {
		return engine.Prompting{}, nil
	}
	judge, err := w.judges()
	if err == nil {
		err = w.priced()
	}
	return engine.Prompting{
		Models: func(name string) (engine.Model, error) { return w.models.model(cmp.Or(w.choices.Model, name)) },
		Converse: func(step session.StepID, p *session.Prompt) engine.Conversation {
			return w.Talks.Converse(step, p, w.Workspace)
		},
		Reads: func(ctx context.Context, work session.CallWork) (string, []session.FileState, error) {
			return reads(ctx, root, work)
		},
		Replies: replies{w.repliesDir(w.writer.Session().ID)}, Unmask: root.Restore,
		PlanOnly: w.planOnly, Watched: w.door.Watches(),
		Propose:         func(raw []byte) (engine.Proposal, error) { return w.propose(raw, judge) },
		CheckpointEvery: w.Settings.Config.Checkpoint.EveryCalls, CheckpointBefore: w.Settings.Config.Checkpoint.Classes(),
		Context: w.context,
		Limits:  w.limits(), Price: w.price,
		Judge: judge, Always: w.keepRule, MaxDenied: w.Settings.Config.Approvals.MaxDenied,
		Diff: w.diff, Trusted: w.trusted,
	}, err
}

// diff describes for a person how a file would change.
func (w *work) diff(before, after []byte, path string) []string {
	diff := workspace.Diff(w.Redactor.Bytes(before), w.Redactor.Bytes(after), path)
	return strings.Split(strings.TrimRight(diff, "\n"), "\n")
}

// repliesDir has the replies that models are sending.
func (s *Setup) repliesDir(id session.ID) string {
	return filepath.Join(s.home(), "replies", string(id))
}

// replies keeps the bytes of replies as they arrive, one file for each request. They are
// not synced: a power cut loses only the part of a reply.
type replies struct{ dir string }

func (r replies) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(r.dir, hex.EncodeToString(sum[:16]))
}

// Create implements engine.Replies.
func (r replies) Create(key string) (io.WriteCloser, error) {
	err := os.MkdirAll(r.dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(r.file(key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return nil, &session.Error{Code: session.ErrStoreIO, Message: "the reply of a model cannot be kept, so it was not asked", Cause: err}
	}
	return f, nil
}

// Read implements engine.Replies.
func (r replies) Read(key string) ([]byte, error) {
	raw, err := os.ReadFile(r.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &session.Error{Code: session.ErrStoreIO, Message: "the reply of a model cannot be read", Cause: err}
	}
	return raw, nil
}

// Forget implements engine.Replies.
func (r replies) Forget(key string) error {
	if err := os.Remove(r.file(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &session.Error{Code: session.ErrStoreIO, Message: "the reply of a model cannot be removed", Cause: err}
	}
	return nil
}

// limits returns the limits of the session. A limit that was given as a flag is what this
// process may use in addition, also after a model has made the plan.
func (w *work) limits() engine.Limits {
	if w.most == nil {
		most := w.mostNow()
		w.most = &most
	}
	return *w.most
}

func (w *work) mostNow() engine.Limits {
	c := w.Settings.Config.Limits
	out := engine.Limits{Requests: c.Turns, Tokens: c.Tokens, Cost: c.Cost}
	requests, used := w.writer.Session().Spent()
	open := w.writer.Session().Promised() // a killed process may have left requests
	for _, v := range w.Settings.Values {
		switch {
		case !strings.HasPrefix(v.Origin, "flag "):
		case v.Key == "limits.turns" && c.Turns > 0:
			out.Requests += requests
		case v.Key == "limits.tokens" && c.Tokens > 0:
			out.Tokens += used.Tokens() + open.Tokens()
		case v.Key == "limits.cost" && c.Cost > 0:
			out.Cost += used.Cost + open.Cost
		}
	}
	return out
}

// context returns how many tokens a request to the model of a name may have, so that its
// answer still has room; 0 if that is not known.
func (w *work) context(model string) int64 {
	c := w.Settings.Config.Models[model]
	return int64(max(0, c.ContextTokens-c.MaxOutputTokens))
}

// price returns the price of the model of a name.
func (w *work) price(model string) engine.Price {
	c := w.Settings.Config.Models[model].Price
	if c == nil {
		return engine.Price{}
	}
	return engine.Price(*c)
}

// priced refuses a limit of cost if a model of the remaining prompts has no price.
func (w *work) priced() error {
	if w.Settings.Config.Limits.Cost == 0 {
		return nil
	}
	for id, step := range w.plan.All() {
		if step.Prompt == nil || w.writer.Session().Status(id) == session.StepDone {
			continue
		}
		if name := cmp.Or(w.choices.Model, step.Prompt.Model); w.price(name) == (engine.Price{}) {
			return &session.Error{Code: session.ErrConfig, Message: fmt.Sprintf("the cost is limited, and the model %s of %s has no price; the model was not asked", name, id),
				Next: session.Words("give the model a price in the configuration, or set no limit of cost")}
		}
	}
	return nil
}

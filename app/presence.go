package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/session"
)

// presenceTime is how long a model may take to say whether it is there.
const presenceTime = 2 * time.Second

// presence asks models whether they are there, before the first step that needs them and
// beside other work (FR-041).
type presence struct {
	w     *work
	asked map[string]func() error

	mu sync.Mutex
	// hosts that were named
	told map[string]bool
}

// look asks the models of the remaining prompts. The returned function ends it.
func (w *work) look(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	w.models = &presence{w: w, asked: map[string]func() error{}, told: map[string]bool{}}
	for id, step := range w.plan.All() {
		if step.Prompt == nil || w.writer.Session().Status(id) == session.StepDone {
			continue
		}
		name := cmp.Or(w.choices.Model, step.Prompt.Model)
		m, err := w.model(name)
		if err != nil || w.models.asked[name] != nil {
			continue // the step reports the error
		}
		there := sync.OnceValue(func() error { return w.models.ask(ctx, name, m) })
		w.models.asked[name] = there
		all.Go(func() { _ = there() }) // the step takes the result
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// ask asks a model whether it is there. Only a definite no is an error. A model that
// cannot be reached is a warning, because steps that do not need it can go on.
func (p *presence) ask(ctx context.Context, name string, m engine.Model) error {
	limited, end := context.WithTimeout(ctx, presenceTime)
	defer end()
	err := m.Check(limited)
	var e *session.Error
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case !errors.As(err, &e) || e.Code != session.ErrEnvironment && e.Code != session.ErrConfig:
		p.w.warn(fmt.Sprintf("the model %s cannot be reached now: %s; steps that do not need it go on", name, err))
		return nil
	case p.w.fresh && e.Code == session.ErrEnvironment:
		gone := *e
		gone.Code = session.ErrConfig
		return &gone
	}
	return e
}

// model returns a model that is there, or cannot be reached now. Before the first request
// to another machine, it says what goes there.
func (p *presence) model(name string) (engine.Model, error) {
	m, err := p.w.model(name)
	if err != nil {
		return nil, err
	}
	if asked := p.asked[name]; asked != nil {
		if err := asked(); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if far, ok := m.(interface{ Leaves() string }); ok && far.Leaves() != "" && !p.told[far.Leaves()] {
		p.told[far.Leaves()] = true
		p.w.info(fmt.Sprintf("The prompts, the files that the model reads and the outputs of its commands go to %s (model %s). Secrets are masked in them.", far.Leaves(), name))
	}
	return m, nil
}

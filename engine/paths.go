package engine

import (
	"context"
	"slices"

	"github.com/acode-dev/acode/session"
)

// pathClaims records the open intents on paths. No two steps have an intent on one path
// at the same time.
type pathClaims struct {
	by map[string]session.StepID
	of map[session.StepID][]string
	// number of steps that work in the workspace
	running int
	// the branch that has the workspace alone or waits for it; nil for none
	alone *branch
	// newest manifest of a look
	look string
}

func newPathClaims() pathClaims {
	return pathClaims{by: map[string]session.StepID{}, of: map[session.StepID][]string{}}
}

func (p *pathClaims) claim(id session.StepID, paths []string) {
	if len(paths) == 0 {
		return
	}
	for _, path := range paths {
		p.by[path] = id
	}
	p.of[id] = paths
}

func (p *pathClaims) release(id session.StepID) {
	for _, path := range p.of[id] {
		if p.by[path] == id { // otherwise the branch's next step has the path
			delete(p.by, path)
		}
	}
	delete(p.of, id)
}

// free reports whether no other step has an intent on one of paths. Steps that b has
// ended do not count, because their receipts are committed with its next intent.
func (p *pathClaims) free(b *branch, id session.StepID, paths []string) bool {
	for _, path := range paths {
		if by, taken := p.by[path]; taken && by != id && !b.hasEnded(by) {
			return false
		}
	}
	return true
}

// named returns the paths that the intent of the step names.
func (e *Engine) named(it *session.Item) (paths []string) {
	return it.Of(e.Plan).Paths()
}

// exclusive reports whether the step has the workspace alone.
func (e *Engine) exclusive(it *session.Item) bool {
	r := it.Of(e.Plan).Run
	return r != nil && r.Exclusive
}

// admit waits until no other step has an intent on the step's paths or has the workspace
// alone. It commits pending drafts before it waits, so that no two branches wait for each
// other. A gate does nothing in the workspace, and a prompt works there only by its
// calls. A command that already runs is admitted at once.
func (c *crew) admit(ctx context.Context, b *branch, it *session.Item) error {
	if !it.Of(c.e.Plan).InWorkspace() {
		return nil
	}
	paths, alone := c.e.named(it), c.e.exclusive(it)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.free(b, it, paths, alone) {
		switch {
		case ctx.Err() != nil || c.draining:
			c.gaveUp(b)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return errDrained
		case len(b.pending) > 0:
			if err := c.commits(ctx, b); err != nil {
				c.gaveUp(b)
				return err
			}
		default:
			c.change.Wait()
		}
	}
	c.paths.claim(it.ID, paths)
	c.paths.running++
	b.admitted = true
	c.beside(b, it, paths)
	return nil
}

// free reports whether b may begin the step. The first branch that wants the workspace
// alone keeps the others from beginning.
func (c *crew) free(b *branch, it *session.Item, paths []string, alone bool) bool {
	p := &c.paths
	if it.Action == session.ActionAttach && it.WasInProgress() {
		if alone {
			p.alone = b
		}
		return true
	}
	if p.alone != nil && p.alone != b {
		return false
	}
	if alone {
		p.alone = b
		return p.running == 0
	}
	return p.free(b, it.ID, paths)
}

// gaveUp lets the others use the workspace again.
func (c *crew) gaveUp(b *branch) {
	if c.paths.alone == b {
		c.paths.alone = nil
		c.change.Broadcast()
	}
}

// dismiss undoes admit. The step's paths stay claimed until its receipt is durable.
func (c *crew) dismiss(b *branch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.admitted {
		b.admitted = false
		c.paths.running--
		c.gaveUp(b)
		c.change.Broadcast()
	}
}

// release frees the paths of a step that has no intent.
func (c *crew) release(id session.StepID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths.release(id)
	c.change.Broadcast()
}

// beside tracks the changes of others during a step whose intent names no paths, so that
// its receipt does not claim them. It also records the paths of a new step for the steps
// that run.
func (c *crew) beside(b *branch, it *session.Item, paths []string) {
	if len(paths) == 0 {
		others := map[string]bool{}
		for id, claimed := range c.paths.of {
			if !b.hasEnded(id) {
				note(others, claimed)
			}
		}
		if b.meanwhile == nil {
			b.meanwhile = map[session.StepID]map[string]bool{}
		}
		b.meanwhile[it.ID] = others
	}
	c.touched(b, paths)
}

// touched records for the other branches that b changes paths.
func (c *crew) touched(b *branch, paths []string) {
	for _, o := range c.branches {
		if o == b {
			continue
		}
		for _, others := range o.meanwhile {
			note(others, paths)
		}
	}
}

func note(set map[string]bool, paths []string) {
	for _, path := range paths {
		set[path] = true
	}
}

// disown removes from the receipts of b the files that others changed during their steps.
// It also sets the newest manifest, so that a later commit never has an older look.
func (c *crew) disown(b *branch, receipts []session.Draft) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, d := range receipts {
		switch data := d.Data.(type) {
		case session.StepCompletedData:
			data.Files, data.Manifest = b.own(data.StepID, data.Files), c.latest(data.Manifest)
			receipts[i].Data = data
		case session.StepFailedData:
			data.Files, data.Manifest = b.own(data.StepID, data.Files), c.latest(data.Manifest)
			receipts[i].Data = data
		}
	}
}

// own returns files without those that others changed during the step.
func (b *branch) own(id session.StepID, files []session.FileState) []session.FileState {
	others := b.meanwhile[id]
	if len(others) == 0 {
		return files
	}
	return slices.DeleteFunc(slices.Clone(files), func(f session.FileState) bool { return others[f.Path] })
}

func (c *crew) latest(manifest string) string {
	if manifest == "" {
		return ""
	}
	return c.paths.look
}

// wrote processes the durable receipts of b. Their paths are free again, and the other
// branches do not claim the files that a command changed.
func (c *crew) wrote(b *branch, drafts []session.Draft) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range drafts {
		var id session.StepID
		var files []session.FileState
		switch data := d.Data.(type) {
		case session.StepCompletedData:
			id, files = data.StepID, data.Files
		case session.StepFailedData:
			id, files = data.StepID, data.Files
		default:
			continue
		}
		c.paths.release(id)
		delete(b.meanwhile, id)
		for _, f := range files {
			c.touched(b, []string{f.Path})
		}
	}
	c.change.Broadcast()
}

// looked records the manifest of a look at the workspace or of a snapshot.
func (c *crew) looked(manifest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths.look = manifest
}

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// maxQuickPre is the largest size of a pre-image for which the receipt before may wait
// (E4).
const maxQuickPre = 64 << 10

// maxMade is the largest size of a post-image that acode keeps.
const maxMade = 64 << 10

// change executes a step that changes files.
func (b *branch) change(ctx context.Context, it *session.Item, step *session.Step) error {
	if it.Action == session.ActionApplied {
		return b.applied(ctx, it)
	}
	changes, err := b.expand(ctx, it, step.Changes)
	if err != nil {
		return err
	}
	if b.inProgress(it) {
		d, err := b.intent(ctx, it)
		if err != nil {
			return err
		}
		if len(d.Files) > 0 {
			return b.redo(ctx, it, d, changes)
		}
		it.Attempt++ // that attempt was not even prepared, so its key stands for nothing
	}
	if err := b.commitBefore(ctx, it, changes); err != nil {
		return err
	}
	key := b.key(it, it.Attempt)
	ts, err := b.Files.Prepare(ctx, key, changes)
	if err != nil {
		return b.unprepared(ctx, it, step, err)
	}
	defer b.Files.Discard(key)
	if it.Call != nil {
		if err := b.Files.CheckProtected(ctx, key); err != nil {
			return err
		}
		if err := b.approved.fits(ts); err != nil {
			return err
		}
	}
	if err := b.keep(ctx, ts); err != nil {
		return err
	}
	if err := b.keepMade(ctx, it, step, ts); err != nil {
		return err
	}
	if err := b.begin(ctx, it, session.StepStartedData{Digest: step.Digest(), Files: ts, By: retriedBy(it)}); err != nil {
		return err
	}
	return b.apply(ctx, it, key)
}

// commitBefore commits the receipt of the step before if preparing the changes takes long
// (E4). It also removes temporary files of an earlier attempt that was given up.
func (b *branch) commitBefore(ctx context.Context, it *session.Item, changes []session.Change) error {
	large := slices.ContainsFunc(changes, func(c session.Change) bool {
		return max(b.Files.Size(c.Path), b.Files.Size(c.From), b.Files.Size(c.To)) > maxQuickPre
	})
	if large {
		if err := b.commit(ctx); err != nil {
			return err
		}
	}
	if b.book.step(it.ID).Status != session.InProgress {
		return nil
	}
	d, err := b.intent(ctx, it)
	if err != nil {
		return err
	}
	return b.Files.Tidy(ctx, d.Key, d.Files)
}

// unprepared records an attempt that failed before it had any effect.
func (b *branch) unprepared(ctx context.Context, it *session.Item, step *session.Step, cause error) error {
	f := fileFailure(cause)
	if _, ok := f.(*failure); !ok || it.Call != nil { // a call that cannot begin leaves no trace
		return f
	}
	if err := b.begin(ctx, it, session.StepStartedData{Digest: step.Digest(), By: retriedBy(it)}); err != nil {
		return err
	}
	return f
}

// keep saves the content that the step removes, before the intent is committed.
func (b *branch) keep(ctx context.Context, ts []session.Transition) error {
	for i, t := range ts {
		if t.Pre.Absent() || moves(ts, t.Path) {
			continue
		}
		if t.Pre.Size > maxQuickPre {
			if err := b.commit(ctx); err != nil {
				return err
			}
		}
		var err error
		if ts[i].Kept, err = b.stageImage(ctx, t.Path, t.Pre); err != nil {
			return err
		}
	}
	return nil
}

// keepMade saves the content that the step makes, if it is small and not in the plan.
// With it, a person can later see how the file was changed.
func (b *branch) keepMade(ctx context.Context, it *session.Item, step *session.Step, ts []session.Transition) error {
	for i, t := range ts {
		if t.Post.Absent() || t.From != "" || t.Post.Hash == t.Pre.Hash || t.Post.Size > maxMade || it.Call == nil && planned(step, t.Post.Hash) {
			continue
		}
		var err error
		if ts[i].Made, err = b.stageImage(ctx, t.Path, t.Post); err != nil {
			return err
		}
	}
	return nil
}

// planned reports whether the plan writes exactly the content with this hash.
func planned(step *session.Step, hash string) bool {
	return slices.ContainsFunc(step.Changes, func(c session.Change) bool {
		if c.Op != session.KindWrite || len(c.Content) > maxMade {
			return false
		}
		sum := sha256.Sum256([]byte(c.Content))
		return hex.EncodeToString(sum[:]) == hash
	})
}

func (b *branch) stageImage(ctx context.Context, path string, i session.Image) (blob string, err error) {
	r, err := b.Files.Image(path, i.Hash)
	if err != nil {
		return "", err
	}
	ref, err := b.Blobs.Stage(ctx, r, i.Size)
	return ref.Hash, err
}

// moves reports whether the content at path is moved to another path.
func moves(ts []session.Transition, path string) bool {
	return slices.ContainsFunc(ts, func(t session.Transition) bool { return t.From == path })
}

func (b *branch) apply(ctx context.Context, it *session.Item, key string) error {
	files, err := b.Files.Apply(context.WithoutCancel(ctx), key)
	if err != nil {
		err = fileFailure(err)
		var f *failure
		if errors.As(err, &f) {
			f.files = files // only acode has touched them
		}
		return err
	}
	b.done(it, session.StepCompletedData{Files: wrote(files)})
	return nil
}

func wrote(files []session.FileState) []session.FileState {
	for i := range files {
		files[i].Wrote = true
	}
	return files
}

// intent reads the intent of the attempt in progress.
func (b *branch) intent(ctx context.Context, it *session.Item) (session.StepStartedData, error) {
	var d session.StepStartedData
	ev, err := b.Journal.Event(ctx, b.book.step(it.ID).StartSeq)
	if err != nil {
		return d, err
	}
	return d, ev.Decode(&d)
}

// applied records that the files already are as the attempt intended (FR-025).
func (b *branch) applied(ctx context.Context, it *session.Item) error {
	d, err := b.intent(ctx, it)
	if err != nil {
		return err
	}
	progress, _, err := b.Files.Inspect(ctx, d.Key, d.Files)
	if err != nil {
		return err
	}
	if progress != session.Applied {
		return changedMeanwhile(it)
	}
	known := make([]session.FileState, len(d.Files))
	for i, t := range d.Files {
		known[i] = session.FileState{Path: t.Path}
	}
	files, err := b.Files.Stat(ctx, known)
	if err != nil {
		return err
	}
	b.handling(it, session.ActionApplied)
	b.done(it, session.StepCompletedData{Files: wrote(files), By: "applied"})
	return nil
}

func changedMeanwhile(it *session.Item) error {
	return &session.Error{Code: session.ErrFileChanged, Place: it.ID.String(),
		Message: "the files of this step changed while acode checked them; nothing was overwritten",
		Next:    session.Words("check the files, then resume again")}
}

// redo continues an attempt that a crash interrupted. It first rolls back a part that was
// done (FR-026), then does everything again under the same key.
func (b *branch) redo(ctx context.Context, it *session.Item, d session.StepStartedData, changes []session.Change) error {
	if err := b.again(ctx, it); err != nil {
		return err
	}
	b.handling(it, it.Action)
	if it.Action == session.ActionRollBack {
		if err := b.rollBack(ctx, it, d); err != nil {
			return err
		}
	}
	ts, err := b.Files.Prepare(ctx, d.Key, changes)
	if err != nil {
		return fileFailure(err)
	}
	defer b.Files.Discard(d.Key)
	if !sameTransitions(ts, d.Files) {
		return changedMeanwhile(it)
	}
	if err := b.Journal.Fence(ctx); err != nil {
		return err
	}
	return b.apply(ctx, it, d.Key)
}

// rollBack restores the pre-images of an attempt. It overwrites content that is neither
// pre-image nor post-image only if a person accepted that content, which is then kept.
func (b *branch) rollBack(ctx context.Context, it *session.Item, d session.StepStartedData) error {
	_, foreign, err := b.Files.Inspect(ctx, d.Key, d.Files)
	if err != nil {
		return err
	}
	for _, f := range foreign {
		if b.knownHash(f.Path) != f.Hash {
			return changedMeanwhile(it)
		}
	}
	kept := map[string]string{}
	for _, t := range d.Files {
		if t.Kept != "" { // another path of the same content may have been moved and therefore not kept
			kept[t.Pre.Hash] = t.Kept
		}
	}
	return b.Files.Rollback(ctx, d.Key, d.Files, foreign, func(hash string) (io.ReadCloser, error) {
		return b.Blobs.Open(ctx, kept[hash])
	})
}

// knownHash returns the hash that the session knows for path. It is empty if the session
// knows no content there.
func (b *branch) knownHash(path string) (hash string) {
	b.book.look(func(s *session.Session) {
		if f := s.Files[path]; f != nil {
			hash = f.Hash
		}
	})
	return hash
}

// sameTransitions compares the present transitions with the intent, ignoring kept
// content.
func sameTransitions(a, b []session.Transition) bool {
	return slices.EqualFunc(a, b, func(x, y session.Transition) bool {
		return x.Path == y.Path && x.Pre == y.Pre && x.Post == y.Post && x.From == y.From
	})
}

// handling reports how acode continues a step that was in progress.
func (b *branch) handling(it *session.Item, a session.Action) {
	b.tell(session.Notice{Kind: session.NoticeHandling, Item: it, Level: a, Text: it.Why})
	b.Log.Info("step was in progress", "event", "in_progress", "step", it.ID.String(), "in_progress_action", string(a), "why", it.Why)
}

// expand replaces inputs and visible captures in the contents of changes.
func (b *branch) expand(ctx context.Context, it *session.Item, changes []session.Change) ([]session.Change, error) {
	if it.Call != nil { // an agent's text stays as it is
		return changes, nil
	}
	var values map[string]string
	out := slices.Clone(changes)
	for i, c := range changes {
		if !strings.Contains(c.Content, "${") && !strings.Contains(c.New, "${") {
			continue
		}
		if values == nil {
			var err error
			if values, err = b.values(ctx, it, b.Secrets); err != nil {
				return nil, err
			}
		}
		out[i].Content = session.Expand(c.Content, values)
		out[i].New = session.Expand(c.New, values)
	}
	return out, nil
}

// captures loads the values that the step can see.
func (b *branch) captures(ctx context.Context, it *session.Item) (map[string]string, error) {
	values := map[string]string{}
	if it.Call != nil {
		return values, nil
	}
	for name, by := range b.visible.at(it) {
		c := b.captured(by)
		if c == nil {
			continue
		}
		value, err := b.value(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("read the value that %s captured: %w", by, err)
		}
		values[name] = value
	}
	return values, nil
}

// captured finds the capture of a step whose receipt is durable or pending.
func (b *branch) captured(by session.StepID) *session.Capture {
	for _, d := range b.pending {
		if c, ok := d.Data.(session.StepCompletedData); ok && c.StepID == by {
			return c.Capture
		}
	}
	return b.book.step(by).Capture
}

func (b *branch) value(ctx context.Context, c *session.Capture) (string, error) {
	if c.Blob.Hash == "" {
		return c.Value, nil
	}
	r, err := b.Blobs.Open(ctx, c.Blob.Hash)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}

package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/acode-dev/acode/engine"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/resume"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

// environment joins the workspace and the blob store to answer the questions of
// validation.
type environment struct {
	root  *workspace.Root
	blobs engine.Blobs
	plan  *session.Plan
	// masks the content that people see
	door *redact.Redactor
	// a question to git that was begun earlier; nil to ask when needed
	git *gitAsked
	// results of validation for the next snapshot; nil if they are not used
	seen *seen
	// never nil
	kept *kept
}

func newEnvironment(root *workspace.Root, blobs engine.Blobs, plan *session.Plan, door *redact.Redactor) environment {
	return environment{root: root, blobs: blobs, plan: plan, door: door, kept: &kept{}}
}

// kept is the session's manifest. It is one whole manifest, or a chain of differences
// that each name the one before.
type kept struct {
	// the name of the newest manifest
	name string
	// the number of manifests in the chain
	length int
	state  *workspace.Manifest
	// starts with state; nil until this process has taken a snapshot
	watch *workspace.Watch
}

// maxManifests is how many manifests a resume reads at most.
const maxManifests = 32

// seen holds results of validation that the next snapshot can use again. The session then
// continues from exactly the state that validation accepted.
type seen struct {
	// the manifest that nothing differs from; empty if there is none
	manifest string
	// git chose the files of the manifest
	byGit bool
	// git reported the recorded state
	sameGit bool
}

// gitAsked is a question to git that runs in the background.
type gitAsked struct {
	cancel context.CancelFunc
	// closed when state and err are set
	done  chan struct{}
	state workspace.Git
	err   error
}

// askGit starts to ask git for the state of dir.
func askGit(ctx context.Context, dir string) *gitAsked {
	ctx, cancel := context.WithCancel(ctx)
	g := &gitAsked{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.state, g.err = workspace.GitState(ctx, dir)
	}()
	return g
}

// wait returns the answer, or an error if ctx ends first.
func (g *gitAsked) wait(ctx context.Context) (workspace.Git, error) {
	select {
	case <-g.done:
		return g.state, g.err
	case <-ctx.Done():
		return workspace.Git{}, context.Cause(ctx)
	}
}

// stop ends a question whose answer is no longer needed, and waits for git to end.
func (g *gitAsked) stop() {
	if g != nil {
		g.cancel()
		<-g.done
	}
}

// maxShown is the size of the largest content, in bytes, that is compared line by line
// for a person.
const maxShown = 1 << 20

// Changes implements resume.Environment.
func (e environment) Changes(ctx context.Context, files []session.FileState, planned []string, manifest string) ([]session.ChangedFile, []string, error) {
	if manifest != "" {
		if err := e.load(ctx, manifest); err != nil {
			return nil, nil, err
		}
	}
	old := e.kept.state
	changed, unchecked, err := e.root.Changes(ctx, files, planned, old)
	if e.seen != nil && err == nil && len(changed)+len(unchecked) == 0 && old != nil && !racy(old) {
		e.seen.manifest, e.seen.byGit = manifest, old.Git
	}
	return changed, unchecked, err
}

// load reads the manifest name and those that it builds on.
func (e environment) load(ctx context.Context, name string) error {
	k := kept{name: name}
	var rows []*workspace.Manifest
	for next := name; next != ""; k.length++ {
		data, err := e.blob(ctx, next)
		if err != nil {
			return err
		}
		m, err := workspace.DecodeManifest(data)
		if err != nil {
			return err
		}
		rows = append(rows, m)
		next = m.Base
	}
	for _, m := range slices.Backward(rows) {
		if k.state != nil {
			m = k.state.With(m)
		}
		k.state = m
	}
	*e.kept = k
	return nil
}

// look stores the differences from the last snapshot or look and returns their name. The
// name is empty if nothing differs.
func (e environment) look(ctx context.Context) (string, error) {
	k := e.kept
	if k.watch == nil {
		return "", nil
	}
	diff, err := k.watch.Look(ctx)
	if diff == nil || err != nil {
		return "", err
	}
	if diff.Base = k.name; k.length >= maxManifests {
		diff, k.length = k.watch.State(), 0
	}
	name, err := e.stage(ctx, diff)
	if err != nil {
		k.length = maxManifests // this difference is lost, so the next manifest is stored whole
		return "", err
	}
	k.name = name
	k.length++
	return name, nil
}

func (e environment) stage(ctx context.Context, m *workspace.Manifest) (string, error) {
	data := m.Encode()
	ref, err := e.blobs.Stage(ctx, bytes.NewReader(data), int64(len(data)))
	return ref.Hash, err
}

// racy reports whether m has files whose stat may hide a change. Every look at m would
// read them again; a new manifest avoids this.
func racy(m *workspace.Manifest) bool {
	return slices.ContainsFunc(m.Entries, func(f session.FileState) bool { return f.Racy })
}

func (e environment) blob(ctx context.Context, hash string) ([]byte, error) {
	r, err := e.blobs.Open(ctx, hash)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// GitChanges implements resume.Environment.
func (e environment) GitChanges(ctx context.Context, git string) ([]string, error) {
	var old workspace.Git
	if err := json.Unmarshal([]byte(git), &old); err != nil {
		return nil, fmt.Errorf("read the recorded git state: %w", err)
	}
	if e.git == nil {
		e.git = askGit(ctx, e.root.Dir())
		defer e.git.stop()
	}
	now, err := e.git.wait(ctx)
	if err != nil {
		return nil, err
	}
	if e.seen != nil {
		e.seen.sameGit = now == old
	}
	if now.Digest == "" {
		return []string{"git no longer reports on the workspace: " + cmp.Or(now.Silent, "it is no longer a repository")}, nil
	}
	var lines []string
	if now.Branch != old.Branch {
		lines = append(lines, fmt.Sprintf("git branch was %s, is %s", cmp.Or(old.Branch, "none (detached)"), cmp.Or(now.Branch, "none (detached)")))
	}
	if now.Head != old.Head {
		lines = append(lines, fmt.Sprintf("git HEAD was %.12s, is %.12s", cmp.Or(old.Head, "none"), cmp.Or(now.Head, "none")))
	}
	switch {
	case now.Dirty && !old.Dirty:
		lines = append(lines, "git working tree has uncommitted changes, had none")
	case old.Dirty && !now.Dirty:
		lines = append(lines, "git working tree has no uncommitted changes, had some")
	}
	return lines, nil
}

// Suspicious implements resume.Environment. It judges only added lines, so only files
// whose old content is stored.
func (e environment) Suspicious(ctx context.Context, changed []session.ChangedFile) []string {
	var out []string
	for _, c := range changed {
		before, now, ok := e.both(ctx, c)
		if !ok {
			continue
		}
		for _, s := range workspace.Suspicious(before, now) {
			out = append(out, fmt.Sprintf("%s:%d: %s", c.Path, s.Line, s.Text))
		}
	}
	return out
}

// both returns the old and the new content of a changed file, masked for people, if both
// are available. The content of a deleted file is empty.
func (e environment) both(ctx context.Context, c session.ChangedFile) (before, now []byte, ok bool) {
	if c.Old == "" || c.Size > maxShown {
		return nil, nil, false
	}
	before, ok = e.held(ctx, c.Old)
	if !ok {
		return nil, nil, false
	}
	before = e.door.Bytes(before)
	if c.Kind == session.FileDeleted {
		return before, nil, true
	}
	r, _, err := e.root.Content(c.Path)
	if err != nil {
		return nil, nil, false
	}
	defer r.Close()
	now, err = io.ReadAll(io.LimitReader(r, maxShown))
	return before, e.door.Bytes(now), err == nil
}

// held returns the content with a hash, from the blobs or from the plan that wrote it. It
// reports false for content that is too large to show.
func (e environment) held(ctx context.Context, hash string) ([]byte, bool) {
	if r, err := e.blobs.Open(ctx, hash); err == nil {
		defer r.Close()
		content, err := io.ReadAll(io.LimitReader(r, maxShown+1))
		return content, err == nil && len(content) <= maxShown
	}
	for _, step := range e.plan.All() {
		for _, c := range step.Changes {
			if sum := sha256.Sum256([]byte(c.Content)); c.Op == session.KindWrite && hex.EncodeToString(sum[:]) == hash {
				return []byte(c.Content), true
			}
		}
	}
	return nil, false
}

// diff compares the old content of a changed file with the new one. known says that both
// are available; there may still be no lines to compare.
func (e environment) diff(c session.ChangedFile) (lines []string, known bool) {
	before, now, ok := e.both(context.Background(), c)
	if !ok {
		return nil, false
	}
	if diff := workspace.Diff(before, now, c.Path); diff != "" {
		lines = strings.Split(strings.TrimRight(diff, "\n"), "\n")
	}
	return lines, true
}

// mostDiffs is how many changed files are compared line by line for a model.
const mostDiffs = 20

// diffs returns changed files for a model. Files that the session uses have a diff.
func (e environment) diffs(changed []session.ChangedFile) (out []session.Difference) {
	compared := 0
	for _, c := range changed {
		d := session.Difference{ChangedFile: c}
		if c.Session != "" && compared < mostDiffs {
			d.Lines, _ = e.diff(c)
			compared++
		}
		out = append(out, d)
	}
	return out
}

// view describes a changed file for a person: a diff if the old content is stored, else
// its known properties.
func (e environment) view(c session.ChangedFile) []string {
	lines, ok := e.diff(c)
	if len(lines) > 0 {
		return lines
	}
	line := c.Path + ": " + c.Kind
	if c.Kind != session.FileDeleted {
		line += fmt.Sprintf(" %s, %d bytes", time.Unix(0, c.MTimeNS).UTC().Format(time.RFC3339), c.Size)
	}
	if c.New != "" {
		line += fmt.Sprintf(", hash %.12s", c.New)
	}
	if c.Old != "" {
		line += fmt.Sprintf(", was %.12s", c.Old)
	}
	switch {
	case ok:
		line += " (no lines to compare)"
	case c.Kind != session.FileCreated:
		line += " (the old content is not stored, or too large to compare)"
	}
	return []string{line}
}

// Snapshot implements resume.Environment. It does not read again the files that
// validation has just compared.
func (e environment) Snapshot(ctx context.Context, planned []string) (shot resume.Snapshot, err error) {
	if e.git == nil {
		e.git = askGit(ctx, e.root.Dir())
		defer e.git.stop()
	}
	if shot.Manifest, err = e.manifest(ctx, planned); err != nil {
		return shot, err
	}
	git, err := e.git.wait(ctx)
	if err != nil || git.Digest == "" {
		shot.GitSilent = git.Silent
		return shot, err
	}
	text, err := json.Marshal(git)
	shot.Git = string(text)
	return shot, err
}

// manifest returns the manifest that validation found unchanged, if git still reports the
// same state, because git chooses the files. Otherwise it makes a new manifest.
func (e environment) manifest(ctx context.Context, planned []string) (string, error) {
	if e.seen != nil && e.seen.manifest != "" {
		git, err := e.git.wait(ctx)
		if err == nil && (e.seen.sameGit || !e.seen.byGit && git.Digest == "") {
			e.kept.watch = e.root.Watch(e.kept.state, planned)
			return e.seen.manifest, nil
		}
	}
	before := e.kept.state
	if e.kept.watch != nil {
		before = e.kept.watch.State()
	}
	m, err := e.root.Scan(ctx, planned, before)
	if err != nil {
		return "", err
	}
	name, err := e.stage(ctx, m)
	if err == nil {
		*e.kept = kept{name: name, length: 1, state: m, watch: e.root.Watch(m, planned)}
	}
	return name, err
}

// Keep implements resume.Environment. It stores only plain files, because no step
// overwrites anything else.
func (e environment) Keep(ctx context.Context, changed []session.ChangedFile) ([]session.FileState, error) {
	known := make([]session.FileState, len(changed))
	for i, c := range changed {
		known[i] = session.FileState{Path: c.Path}
	}
	states, err := e.root.Stat(ctx, known)
	if err != nil {
		return nil, err
	}
	for _, f := range states {
		if f.Hash == "" {
			continue
		}
		if err := e.keep(ctx, f); err != nil && session.CodeOf(err) != session.ErrEscape { // a link, whose file has a path of its own
			return nil, err
		}
	}
	return states, nil
}

// keep stores the exact content that f describes, because a step may overwrite an
// accepted file.
func (e environment) keep(ctx context.Context, f session.FileState) error {
	r, size, err := e.root.Content(f.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	if _, err := e.blobs.Stage(ctx, io.TeeReader(r, sum), size); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.Hash {
		return &session.Error{Code: session.ErrFileChanged, Place: f.Path, Retryable: true,
			Message: "the file changed again while acode stored its content; the session is unchanged", Next: session.Words("look at the file, then resume")}
	}
	return nil
}

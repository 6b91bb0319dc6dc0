package local

import (
	"context"
	"slices"

	"github.com/acode-dev/acode/session"
)

// project writes the rows that the events changed, then signs the commit.
func (b *batch) project(ctx context.Context) error {
	s, sums := b.w.sess, b.w.sums
	c := session.Commit{Session: s.ID, LastSeq: s.LastSeq, Head: s.Head, Epoch: s.Epoch, Row: sums.row(s), Steps: sums.steps.sum, Files: sums.files.sum, KeyID: b.w.st.keys.id}
	c.HMAC = b.w.st.keys.sign(c.Signed())
	b.commit = c
	if err := b.projectSession(ctx, c); err != nil {
		return err
	}
	for _, id := range once(b.steps) {
		if err := b.projectStep(ctx, s.Steps[id]); err != nil {
			return err
		}
	}
	for _, id := range once(b.ops) {
		if err := b.projectOperation(ctx, id, s.Ops[id]); err != nil {
			return err
		}
	}
	for _, path := range once(b.files) {
		if err := b.projectFile(ctx, s.Files[path]); err != nil {
			return err
		}
	}
	if b.acquired {
		return b.probe(ctx)
	}
	return nil
}

func (b *batch) projectSession(ctx context.Context, c session.Commit) error {
	s := b.w.sess
	if !b.scalars {
		return b.c.exec(ctx, updateSession, int64(s.LastSeq), s.LastUS, s.Done, s.Calls, s.Head[:], c.Row[:], c.Steps[:], c.Files[:], c.KeyID, c.HMAC[:], b.no)
	}
	now := []any{s.Plan.Hash, s.Plan.Bytes, s.Plan.Sealed, s.Tasks, s.StepTotal, string(s.State), string(s.Left), string(s.Reason), s.Detail, s.Workspace, s.Config, int64(s.Epoch), s.Device, s.Manifest, s.Git, s.Inputs, s.Learnt, s.Rules,
		int64(s.LastSeq), s.LastUS, s.Done, s.Calls, s.Head[:], c.Row[:], c.Steps[:], c.Files[:], c.KeyID, c.HMAC[:], b.no}
	if b.w.no != 0 {
		return b.c.exec(ctx, updateWhole, now...)
	}
	return b.c.exec(ctx, insertSession, append(now, string(s.ID), s.Short, s.Task, string(s.OnFailure), s.CreatedUS)...)
}

func (b *batch) projectStep(ctx context.Context, st *session.StepState) error {
	return b.c.exec(ctx, writeStep, rowPosition(b.no, b.w.sums.steps.rows[st.StepID].n), st.Task, st.Step,
		string(st.Status), st.Attempt, unless(st.Key, mainKey(b.w.sess.ID, st)), int64(st.StartSeq), int64(st.LastSeq), st.StartedUS, st.EndedUS,
		nullable(string(st.Code)), nullable(st.Message), nullable(optional(st.Capture)), nullable(optional(st.Approval)), nullable(heldColumn(st)), nullable(optional(st.Talk)))
}

// projectOperation writes the row of an operation. It removes the row if st is nil.
func (b *batch) projectOperation(ctx context.Context, id session.StepID, st *session.StepState) error {
	if st == nil {
		return b.c.exec(ctx, deleteOperation, b.no, id.Task, id.Step, id.Op)
	}
	return b.c.exec(ctx, writeOperation, b.no, st.Task, st.Step, st.Op, st.Tool, st.Digest, string(st.Status), st.Attempt,
		int64(st.StartSeq), int64(st.LastSeq), st.StartedUS, st.EndedUS, string(st.Code), st.Message)
}

func (b *batch) projectFile(ctx context.Context, f *session.FileState) error {
	return b.c.exec(ctx, writeFile, rowPosition(b.no, b.w.sums.files.rows[f.Path].n), f.Path,
		f.Hash, f.Size, f.Mode, f.MTimeNS, f.CTimeNS, int64(f.Inode), f.Racy, f.Wrote)
}

// once returns ks without repetitions, in the same order.
func once[K comparable](ks []K) []K {
	if len(ks) < 2 {
		return ks
	}
	seen := make(map[K]bool, len(ks))
	return slices.DeleteFunc(ks, func(k K) bool {
		was := seen[k]
		seen[k] = true
		return was
	})
}

// probe inserts and deletes a row at the place of the next file row. Reading does not
// notice a page whose header is wrong about its free space. The commit that takes a
// session over must notice it, because the next write there would be the receipt of an
// effect.
func (b *batch) probe(ctx context.Context) error {
	pos := rowPosition(b.no, int64(len(b.w.sums.files.rows))+1)
	if err := b.c.exec(ctx, writeFile, pos, "", "", 0, 0, 0, 0, 0, 0, 0); err != nil {
		return err
	}
	return b.c.exec(ctx, deleteFile, pos)
}

func nullable(s string) any { return unless(s, "") }

// unless returns nil if s is the usual value, and s otherwise.
func unless(s, rule string) any {
	if s == rule {
		return nil
	}
	return s
}

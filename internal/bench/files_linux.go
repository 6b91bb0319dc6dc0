package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/workspace"
)

const fileRepeats = 400

// fileSteps compares a step that writes or edits a file with the bare file calls and one
// synced write of a log.
func (b *bench) fileSteps(ctx context.Context) error {
	for _, edit := range []bool{false, true} {
		name, limit := "write", 1.3
		if edit {
			name, limit = "edit", 1.45
		}
		dir, err := b.place("files-" + name)
		if err != nil {
			return err
		}
		durable, bare, err := compareFileSteps(ctx, dir, edit)
		if err != nil {
			return err
		}
		b.report.ratio("file step ("+name+") / its file calls and one synced log write", durable, bare, limit)
	}
	return nil
}

// fileBench is a step that changes files, and its bare counterpart.
type fileBench struct {
	w    *local.Writer
	root *workspace.Root
	// dir holds the bare files.
	dir     *os.File
	log     *os.File
	edit    bool
	receipt session.Draft
}

func compareFileSteps(ctx context.Context, dir string, edit bool) (durable, bare sample, err error) {
	ws, raw := filepath.Join(dir, "workspace"), filepath.Join(dir, "raw")
	if err := errors.Join(os.MkdirAll(ws, 0o755), os.MkdirAll(raw, 0o755), preallocate(filepath.Join(dir, "log"))); err != nil {
		return nil, nil, err
	}
	f := &fileBench{edit: edit}
	for i := range fileRepeats {
		for _, d := range []string{ws, raw} {
			if !edit {
				break
			}
			if err := os.WriteFile(filepath.Join(d, fileName(i)), content("before", i), 0o644); err != nil {
				return nil, nil, err
			}
		}
	}
	st, err := openStore(ctx, filepath.Join(dir, "home"))
	if err != nil {
		return nil, nil, err
	}
	if f.w, err = newSession(ctx, st, fileRepeats+1); err != nil {
		return nil, nil, err
	}
	if f.root, err = workspace.Open(ws, now); err != nil {
		return nil, nil, err
	}
	if f.dir, err = os.Open(raw); err != nil {
		return nil, nil, err
	}
	if f.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	for i := range fileRepeats {
		err := errors.Join(
			durable.timed(func() error { return f.step(ctx, i) }),
			bare.timed(func() error { return f.bare(i) }))
		if err != nil {
			return nil, nil, err
		}
	}
	return durable, bare, errors.Join(f.w.Close(), st.Close(), f.root.Close(), f.dir.Close(), f.log.Close())
}

func fileName(i int) string { return fmt.Sprintf("file-%04d.txt", i) }

func content(word string, i int) []byte {
	return []byte(word + strings.Repeat(fmt.Sprintf(" %06d", i*7919), 140))
}

// step does the work of the engine for a step that changes files.
func (f *fileBench) step(ctx context.Context, i int) error {
	if _, err := f.w.Requests(ctx); err != nil {
		return err
	}
	if err := f.root.InPlace(); err != nil {
		return err
	}
	change := session.Change{Op: session.KindWrite, Path: fileName(i), Content: string(content("after", i))}
	if f.edit {
		change = session.Change{Op: session.KindEdit, Path: fileName(i), Old: "before", New: "after"}
	}
	k := key(f.w, stepID(i), 1)
	ts, err := f.root.Prepare(ctx, k, []session.Change{change})
	if err != nil {
		return err
	}
	defer f.root.Discard(k)
	if f.edit {
		r, err := f.root.Image(fileName(i), ts[0].Pre.Hash)
		if err != nil {
			return err
		}
		ref, err := f.w.Stage(ctx, r, ts[0].Pre.Size)
		if err != nil {
			return err
		}
		ts[0].Kept = ref.Hash
	}
	sum := sha256.Sum256([]byte(k))
	ds := []session.Draft{{Type: session.StepStarted, Data: session.StepStartedData{
		StepID: stepID(i), Kind: change.Op, Key: k, Attempt: 1, Digest: hex.EncodeToString(sum[:]), Files: ts}}}
	if i > 0 {
		ds = append([]session.Draft{f.receipt}, ds...)
	}
	if _, err := f.w.Append(ctx, ds...); err != nil {
		return err
	}
	if err := f.w.Fence(ctx); err != nil {
		return err
	}
	files, err := f.root.Apply(ctx, k)
	f.receipt = session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{StepID: stepID(i), Key: k, Attempt: 1, Files: files}}
	return err
}

// bare does the least work with the same effect: a temporary file, its sync, the rename,
// the sync of the directory, and a synced write of a log.
func (f *fileBench) bare(i int) error {
	if f.edit {
		if _, err := os.ReadFile(filepath.Join(f.dir.Name(), fileName(i))); err != nil {
			return err
		}
	}
	if err := overwrite(f.log, content("log", i), i); err != nil {
		return err
	}
	temp := filepath.Join(f.dir.Name(), ".temp")
	t, err := os.Create(temp)
	if err != nil {
		return err
	}
	_, err = t.Write(content("after", i))
	if err := errors.Join(err, unix.Fsync(int(t.Fd())), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(f.dir.Name(), fileName(i))); err != nil {
		return err
	}
	return unix.Fsync(int(f.dir.Fd()))
}

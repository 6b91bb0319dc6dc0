package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

// question is a question about a call.
type question struct {
	session.ApprovalRequestedData
	// files are the changes that it shows, as JSON; nil for a command
	files []byte
}

// approved is the yes of a person that a call is about to use. It is zero for none.
type approved struct {
	digest string
	// as in question
	files []byte
}

func (q question) approved() approved { return approved{q.Digest, q.files} }

// fits returns ErrFileChanged if the changes of files are not those that a person
// approved.
func (a approved) fits(all []session.Transition) error {
	if a.files == nil {
		return nil
	}
	now, err := json.Marshal(all)
	if err == nil && !bytes.Equal(now, a.files) {
		err = &session.Error{Code: session.ErrFileChanged, Message: "the files have changed since a person approved their change; nothing was changed"}
	}
	return err
}

// wants returns the question of asker about a call. Its digest binds the call by name,
// its work, the names of the environment, and the content of the files before and after.
// The rule that is offered binds the files that a command names.
func (b *branch) wants(ctx context.Context, it *session.Item, v session.Permission, work []byte, asker, name string) (q question, err error) {
	q.StepID, q.Question, q.Offer = it.ID, asker+" asks to use "+it.Call.Tool, v.Offer
	if v.Reason != "" {
		q.Question += " (" + v.Class + ": " + v.Reason + ")"
	}
	var bound []byte
	if it.Work.Run != nil {
		q.Detail, bound, err = b.wantsRun(ctx, it)
	} else {
		q.Detail, bound, err = b.wantsFiles(ctx, it)
		q.files = bound
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(name), work, bound, []byte(v.Offer)} {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(part), part) // a hash never fails to write
	}
	q.Digest = hex.EncodeToString(h.Sum(nil))
	return q, err
}

// wantsRun describes a command, and returns the names of its environment.
func (b *branch) wantsRun(ctx context.Context, it *session.Item) (lines []string, bound []byte, err error) {
	run := it.Work.Run
	req, err := b.request(ctx, it, run)
	if err != nil {
		return nil, nil, err
	}
	dir := run.Dir
	if dir == "" {
		dir = "the workspace"
	}
	lines = append(it.Work.Does(), "in "+dir+", "+confinedText(b.confinement(run)))
	names := make([]string, len(req.Env))
	for i, v := range req.Env {
		names[i], _, _ = strings.Cut(v, "=")
	}
	slices.Sort(names)
	bound, err = json.Marshal(names)
	return lines, bound, err
}

func confinedText(how session.Confinement) string {
	switch how {
	case session.Unconfined:
		return "with all your rights"
	case session.ConfinedOnline:
		return "in a sandbox with the network"
	}
	return "in a sandbox without a network"
}

// mostShown is the greatest length of a file whose change is shown.
const mostShown = 256 << 10

// wantsFiles describes the changes of files as differences, and returns their hashes
// before and after.
func (b *branch) wantsFiles(ctx context.Context, it *session.Item) (lines []string, bound []byte, err error) {
	key := b.key(it, 1)
	all, err := b.Files.Prepare(ctx, key, it.Work.Changes)
	if err != nil {
		return nil, nil, fileFailure(err)
	}
	defer b.Files.Discard(key)
	if err := b.Files.CheckProtected(ctx, key); err != nil {
		return nil, nil, fileFailure(err)
	}
	lines = it.Work.Does()
	for _, tr := range all {
		before, berr := b.image(tr.Path, tr.Pre)
		after, aerr := b.image(tr.Path, tr.Post)
		switch err := errors.Join(berr, aerr); {
		case err == nil:
			lines = append(lines, b.Diff(before, after, tr.Path)...)
		case errors.Is(err, errTooLarge):
			lines = append(lines, tr.Path+": the difference is too large to show")
		default:
			return nil, nil, fileFailure(err)
		}
	}
	bound, err = json.Marshal(all)
	return lines, bound, err
}

var errTooLarge = errors.New("too large to show")

// image returns content that Prepare found or computed, or an error if it cannot be
// shown.
func (b *branch) image(path string, i session.Image) ([]byte, error) {
	switch {
	case i.Hash == "":
		return nil, nil
	case i.Size > mostShown:
		return nil, errTooLarge
	}
	r, err := b.Files.Image(path, i.Hash)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

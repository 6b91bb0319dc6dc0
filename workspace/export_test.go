package workspace

import (
	"context"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// SetPatience bounds how long git may take for one answer.
func (r *Root) SetPatience(d time.Duration) { r.patience = d }

// GitState is GitState with the patience of r.
func (r *Root) GitState(ctx context.Context) (Git, error) { return r.repository().state(ctx) }

// SetHook makes f see every effect before it happens; an error fails the effect, a panic
// stands for the end of the process.
func (r *Root) SetHook(f func(op string) error) {
	r.hook = func(op string) error {
		if f == nil || strings.HasPrefix(op, "look at ") {
			return nil
		}
		return f(op)
	}
}

// SetSeen makes f hear of every last look that Apply takes at what it did; an error fails
// it.
func (r *Root) SetSeen(f func(name string) error) {
	r.hook = func(op string) error {
		name, looked := strings.CutPrefix(op, "look at ")
		if !looked {
			return nil
		}
		return f(name)
	}
}

// TempName names the n-th temporary file of key.
func TempName(key string, n int) string { return tempName(key, n) }

// Matches reports whether a glob matches a path, and whether it could match below it.
func Matches(glob, name string) (match, under bool) {
	p, err := parsePattern(glob)
	return err == nil && p.match(name), err == nil && p.under(name)
}

// Lends reports whether a file of this mode, user and group is one that no new file of
// these takes the place of.
func Lends(mode, uid, gid, asUID, asGID uint32) bool {
	return stat{mode: mode, uid: uid, gid: gid}.lends(asUID, asGID)
}

// Racy reports whether a change right after now could leave these times behind, in
// nanoseconds.
func Racy(mtime, ctime int64, now time.Time) bool { return stat{mtime: mtime, ctime: ctime}.racy(now) }

// Compare lists what differs from old.
func (r *Root) Compare(ctx context.Context, old *Manifest) ([]session.ChangedFile, []string, error) {
	return r.Changes(ctx, nil, nil, old)
}

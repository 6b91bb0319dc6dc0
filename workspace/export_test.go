package workspace

import (
	"context"
	"strings"
	"time"

	"github.com/acode-dev/acode/session"
)

// SetPatience sets how long git may take for one answer.
func (r *Root) SetPatience(d time.Duration) { r.patience = d }

// GitState is GitState with the patience of r.
func (r *Root) GitState(ctx context.Context) (Git, error) { return r.repository().state(ctx) }

// SetHook makes r call f before each effect. An error fails the effect, and a panic
// stands for the end of the process.
func (r *Root) SetHook(f func(op string) error) {
	r.hook = func(op string) error {
		if f == nil || strings.HasPrefix(op, "look at ") {
			return nil
		}
		return f(op)
	}
}

// SetSeen makes r call f for each file that Apply checks at its end. An error fails the
// check.
func (r *Root) SetSeen(f func(name string) error) {
	r.hook = func(op string) error {
		name, looked := strings.CutPrefix(op, "look at ")
		if !looked {
			return nil
		}
		return f(name)
	}
}

// TempName returns the name of the n-th temporary file of key.
func TempName(key string, n int) string { return tempName(key, n) }

// Matches reports whether a glob matches a path, and whether it could match below it.
func Matches(glob, name string) (match, under bool) {
	p, err := parsePattern(glob)
	return err == nil && p.match(name), err == nil && p.under(name)
}

// Lends reports whether a file of this mode, user and group must not be replaced by a
// new file of asUID and asGID.
func Lends(mode, uid, gid, asUID, asGID uint32) bool {
	return stat{mode: mode, uid: uid, gid: gid}.lends(asUID, asGID)
}

// Racy reports whether a change right after now could leave these times, in
// nanoseconds.
func Racy(mtime, ctime int64, now time.Time) bool { return stat{mtime: mtime, ctime: ctime}.racy(now) }

// Compare returns the differences from old.
func (r *Root) Compare(ctx context.Context, old *Manifest) ([]session.ChangedFile, []string, error) {
	return r.Changes(ctx, nil, nil, old)
}

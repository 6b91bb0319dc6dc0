package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/subtree"
)

// Record says that a person trusts the files of a workspace.
type Record struct {
	V         int       `json:"v"`
	Workspace string    `json:"workspace"`
	Digest    string    `json:"digest"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// Store keeps the records, one file with one line for each workspace.
type Store struct {
	// Dir is absolute. It must lie outside of every workspace.
	Dir string
	// without names the check to leave out, and user is the id of this user, for tests.
	without string
	user    func() int
}

// maxRecord is far more than a record needs.
const maxRecord = 16 << 10

func (s Store) file(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+".json")
}

// Of returns the record of a workspace; nil if there is none. It returns ErrConfig for a
// record that another user or the workspace could have written.
func (s Store) Of(workspace string) (*Record, error) {
	if err := s.apart(workspace); err != nil {
		return nil, err
	}
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if s.without != "link" {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(s.file(workspace), flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, s.bad(workspace, "cannot be opened", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := s.private(f, workspace); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, s.bad(workspace, "cannot be read", err)
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || d.More() || r.V != 1 {
		return nil, s.bad(workspace, "cannot be read", err)
	}
	if r.Workspace != workspace && s.without != "workspace" {
		return nil, s.bad(workspace, "belongs to another workspace", nil)
	}
	return &r, nil
}

// private refuses a record that someone else may have written.
func (s Store) private(f *os.File, workspace string) error {
	user := os.Geteuid
	if s.user != nil {
		user = s.user
	}
	for _, at := range []string{"", s.Dir} {
		info, err := f.Stat()
		if at != "" {
			info, err = os.Lstat(at)
		}
		if err != nil {
			return s.bad(workspace, "cannot be read", err)
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case at == "" && !info.Mode().IsRegular():
			return s.bad(workspace, "is not a regular file", nil)
		case (!ok || int(owner.Uid) != user()) && s.without != "owner":
			return s.bad(workspace, "belongs to another user", nil)
		case info.Mode().Perm()&0o022 != 0 && s.without != "mode":
			return s.bad(workspace, "can be changed by other users", nil)
		}
	}
	return nil
}

// apart refuses a store inside the workspace: the workspace could then trust itself.
func (s Store) apart(workspace string) error {
	if subtree.Within(workspace, subtree.Resolved(s.Dir)) && s.without != "apart" {
		return &session.Error{Code: session.ErrConfig, Message: "acode's state lies inside the workspace, so nothing of the workspace can be trusted; nothing was changed", Place: s.Dir,
			Next: session.Words("keep acode's state outside of " + workspace)}
	}
	return nil
}

func (s Store) bad(workspace, why string, cause error) error {
	return &session.Error{Code: session.ErrConfig, Message: "the record of trust " + why + ", so nothing of the workspace is trusted", Place: s.file(workspace), Cause: cause,
		Next: session.Words("remove this file, then trust the workspace again")}
}

// Trusts reports whether a person trusts exactly v. known says that there is
// a record, perhaps of other content.
func (s Store) Trusts(v Seen) (yes, known bool, err error) {
	r, err := s.Of(v.Workspace)
	if err != nil || r == nil {
		return false, false, err
	}
	return v.Digest != "" && (r.Digest == v.Digest || s.without == "digest"), true, nil
}

// Bind records that a person trusts v. It is durable when Bind returns.
func (s Store) Bind(v Seen, by string, at time.Time) error {
	if err := s.apart(v.Workspace); err != nil {
		return err
	}
	line, err := json.Marshal(Record{V: 1, Workspace: v.Workspace, Digest: v.Digest, By: by, At: at.UTC()})
	if err == nil {
		err = os.MkdirAll(s.Dir, 0o700)
	}
	if err == nil {
		err = replace(s.file(v.Workspace), append(line, '\n'))
	}
	if err != nil {
		return &session.Error{Code: session.ErrStoreIO, Message: "the trust in the workspace cannot be recorded; nothing was changed", Place: s.Dir, Cause: err}
	}
	return nil
}

// replace replaces a file durably, or leaves it as it was.
func replace(file string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(file))
}

// Revoke removes the record of a workspace. It reports whether there was one. The removal
// is durable when Revoke returns.
func (s Store) Revoke(workspace string) (was bool, err error) {
	err = os.Remove(s.file(workspace))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = syncDir(s.Dir)
	}
	if err != nil {
		err = &session.Error{Code: session.ErrStoreIO, Message: "the trust in the workspace cannot be revoked", Place: s.file(workspace), Cause: err}
	}
	return err == nil, err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

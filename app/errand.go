package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
)

// Errand is a change that a client asked for under a name of its own. It is kept in a
// file, so that a change that is asked for again under that name is not made twice, also
// after a restart.
type Errand struct {
	// Name is the client's name for the change. It is valid in one workspace.
	Name string `json:"name"`
	// Digest is that of everything that the client asked for.
	Digest string `json:"digest"`
	// Session is the session that the change is about.
	Session session.ID `json:"session"`
	// Epoch is that of the session before the change.
	Epoch uint64 `json:"epoch"`
	// Answer is the answer to the client; empty before the change is made.
	Answer json.RawMessage `json:"answer,omitempty"`

	path string
}

// Errand returns the errand with a name in the workspace. If there is none, it keeps the
// one that first returns; it is durable when Errand returns. Errand returns ErrConflict
// if the errand has another digest.
func (s *Site) Errand(name, digest string, first func() (session.ID, uint64, error)) (*Errand, error) {
	sum := sha256.Sum256([]byte(s.Workspace + "\x00" + name))
	path := filepath.Join(s.home(), "errands", hex.EncodeToString(sum[:]))
	e, err := readErrand(path)
	if errors.Is(err, fs.ErrNotExist) {
		e = &Errand{Name: name, Digest: digest, path: path}
		if e.Session, e.Epoch, err = first(); err != nil {
			return nil, err
		}
		if err = e.write(os.Link); errors.Is(err, fs.ErrExist) { // another process was faster
			e, err = readErrand(path)
		}
	}
	if err != nil {
		return nil, errandError(path, err)
	}
	if e.Digest != digest {
		return nil, &session.Error{Code: session.ErrConflict, Message: fmt.Sprintf("another request was made under the name %q; nothing was changed", name)}
	}
	return e, nil
}

// Done keeps the answer to an errand.
func (e *Errand) Done(answer any) (err error) {
	if e.Answer, err = json.Marshal(answer); err != nil {
		return err
	}
	if err := e.write(os.Rename); err != nil {
		return errandError(e.path, err)
	}
	return nil
}

// write writes the file durably. place moves it to its name.
func (e *Errand) write(place func(from, to string) error) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	dir := filepath.Dir(e.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after a rename it is gone
	_, err = fmt.Fprintf(f, "%s\n%x\n", text, sum)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), e.path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readErrand(path string) (*Errand, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	e := &Errand{path: path}
	text, rest, _ := bytes.Cut(data, []byte("\n"))
	if sum := sha256.Sum256(text); string(rest) != hex.EncodeToString(sum[:])+"\n" || json.Unmarshal(text, e) != nil {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the record of a request is damaged; nothing was changed", Place: path,
			Next: session.Words("find out whether the request was carried out, then make it under another name")}
	}
	return e, nil
}

func errandError(path string, err error) error {
	if session.CodeOf(err) != session.ErrInternal {
		return err
	}
	return &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: "the record of a request cannot be kept; nothing was changed", Place: path, Cause: err, Retryable: true}
}

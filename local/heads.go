package local

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
	"golang.org/x/sys/unix"
)

// A head is a copy of the newest commit outside the database. acode overwrites it after
// each commit and never syncs it. After a crash it may be older than the database, but
// never newer.

const (
	headMagic = "ACHEAD1\x00"
	headBytes = 8 + 16 + 8 + 8 + 4*32 + 8 + 32
)

func headPath(home string, id session.ID) string {
	return filepath.Join(home, "heads", string(id))
}

func encodeHead(c session.Commit) ([]byte, error) {
	id, err := session.ParseUUID(string(c.Session))
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, headBytes), headMagic...)
	b = append(b, id[:]...)
	b = numbers(b, c.LastSeq, c.Epoch)
	for _, h := range []session.Hash{c.Head, c.Row, c.Steps, c.Files} {
		b = append(b, h[:]...)
	}
	b = append(b, (c.KeyID + "        ")[:8]...)
	return append(b, c.HMAC[:]...), nil
}

func decodeHead(b []byte) (c session.Commit, err error) {
	if len(b) != headBytes || string(b[:8]) != headMagic {
		return c, errors.New("not the record of a head")
	}
	c.Session = uuidText([16]byte(b[8:24]))
	c.LastSeq, c.Epoch = binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])
	b = b[40:]
	for _, h := range []*session.Hash{&c.Head, &c.Row, &c.Steps, &c.Files} {
		copy(h[:], b)
		b = b[32:]
	}
	c.KeyID = string(b[:8])
	if _, err := hex.DecodeString(c.KeyID); err != nil {
		return c, errors.New("not the id of a key")
	}
	copy(c.HMAC[:], b[8:])
	return c, nil
}

// errHead is the cause of the error for a head file that does not match its signature. A
// power cut may leave such a file, because it is never synced.
var errHead = errors.New("the head file is damaged")

// readHead returns nil when the head file is missing or empty, and an error with errHead
// as its cause when it is damaged. The file may be read while it is written, so readHead
// reads an unsigned head again until two reads are equal.
func readHead(home string, k *keys, id session.ID) (*session.Commit, error) {
	var before []byte
	for {
		b, err := readHeadFile(headPath(home, id))
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.Trim(b, "\x00")) == 0:
			return nil, nil
		case errors.Is(err, errKind):
			return nil, badHead(home, id, err)
		case err != nil:
			return nil, storeError("read head", err)
		}
		c, err := decodeHead(b)
		if err == nil && c.Session == id && sameHash(k.sign(c.Signed()), c.HMAC) {
			return &c, nil
		}
		if bytes.Equal(b, before) {
			return nil, badHead(home, id, errHead)
		}
		before = b
	}
}

func badHead(home string, id session.ID, cause error) error {
	return &session.Error{Code: session.ErrTampered, Message: "the head file of the session does not match its signature; nothing was changed", Place: headPath(home, id), Next: session.Do(session.MoveVerify, string(id)), Cause: cause}
}

// headNames lists the sessions that have a head. It ignores other files in the directory.
func headNames(home string) ([]session.ID, error) {
	entries, err := os.ReadDir(filepath.Join(home, "heads"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storeError("list heads", err)
	}
	var ids []session.ID
	for _, e := range entries {
		if _, err := session.ParseUUID(e.Name()); err == nil {
			ids = append(ids, session.ID(e.Name()))
		}
	}
	return ids, nil
}

// readHeadFile reads the size of a head and one byte more, by which the caller notices a
// longer file.
func readHeadFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headBytes+1))
}

// writeHead overwrites the head. A failure does not undo the commit: the head then does
// not confirm the newest events, and nothing else is lost.
func (w *Writer) writeHead(c session.Commit) {
	if w.head == nil {
		f, err := os.OpenFile(headPath(w.st.opts.Home, c.Session), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return
		}
		w.head = f
		_ = f.Truncate(headBytes) // more bytes would look like damage
	}
	if b, err := encodeHead(c); err == nil {
		_, _ = w.head.WriteAt(b, 0) // see above
	}
}

package workspace

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/acode-dev/acode/session"
)

// manifestVersion is the first byte of an encoded manifest.
const manifestVersion = 1

// Encode returns the manifest as bytes: the version, the base, whether git chose the
// files, the number of directories, the number of files, and then each of them. A path
// is the number of bytes that it shares with the path before it, and the rest. Numbers
// and flags are varints. Texts have their length before them.
func (m *Manifest) Encode() []byte {
	b := make([]byte, 0, 64+64*(len(m.Dirs)+len(m.Entries)))
	b = appendText(append(b, manifestVersion), m.Base)
	b = appendNumbers(b, flag(m.Git), uint64(len(m.Dirs)), uint64(len(m.Entries)))
	before := ""
	for _, list := range [][]session.FileState{m.Dirs, m.Entries} {
		for _, f := range list {
			shared := 0
			for shared < min(len(before), len(f.Path)) && before[shared] == f.Path[shared] {
				shared++
			}
			// a hash is always valid hexadecimal
			hash, _ := hex.DecodeString(f.Hash)
			b = appendText(appendText(appendNumbers(b, uint64(shared)), f.Path[shared:]), string(hash))
			b = appendNumbers(b, flag(f.Racy), uint64(f.Size), uint64(f.Mode), uint64(f.MTimeNS), uint64(f.CTimeNS-f.MTimeNS), f.Inode)
			before = f.Path
		}
	}
	return b
}

func appendText(b []byte, s string) []byte { return append(appendNumbers(b, uint64(len(s))), s...) }

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func flag(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// DecodeManifest reads the bytes of Encode. It returns ErrNewer for a later version and
// ErrCorrupt for other bytes that it cannot read.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > 0 && b[0] > manifestVersion {
		return nil, &session.Error{Code: session.ErrNewer, Message: "the manifest of tracked files was written by a newer acode", Next: session.Words("use a newer acode")}
	}
	d := decoder{b: b}
	d.bad = d.number() != manifestVersion
	m := &Manifest{Base: d.text(), Git: d.number() != 0}
	dirs, entries := d.number(), d.number()
	before := ""
	for n := uint64(0); n < dirs && !d.bad; n++ {
		m.Dirs = append(m.Dirs, d.state(&before))
	}
	for n := uint64(0); n < entries && !d.bad; n++ {
		m.Entries = append(m.Entries, d.state(&before))
	}
	if d.bad || len(d.b) > 0 {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the manifest of tracked files is damaged; nothing was changed",
			Cause: errors.New("the bytes end early or are not valid"), Next: session.Do(session.MoveVerify, "")}
	}
	return m, nil
}

// decoder reads from the front of b. After an error it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if d.bad = d.bad || size <= 0; d.bad {
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) text() string {
	n := d.number()
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// state reads one file or directory. before is the path of the one before it.
func (d *decoder) state(before *string) session.FileState {
	shared := min(d.number(), uint64(len(*before)))
	f := session.FileState{Path: (*before)[:shared] + d.text(), Hash: hex.EncodeToString([]byte(d.text())), Racy: d.number() != 0,
		Size: int64(d.number()), Mode: uint32(d.number()), MTimeNS: int64(d.number())}
	f.CTimeNS = f.MTimeNS + int64(d.number())
	f.Inode = d.number()
	*before = f.Path
	return f
}

package workspace

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/acode-dev/acode/session"
)

// manifestVersion is the first byte of an encoded manifest.
const manifestVersion = 1

const (
	flagRacy = 1 << iota
	flagHash
	flagGit  // of the manifest
	flagBase // likewise
)

// Encode gives the manifest as bytes: the version, flags, the hash of its base when it has one, the number of
// directories and of files, and for each of them the length of what its path shares with
// the one before, the rest of the path, flags, size, mode, times, inode, and the hash
// when it has one. Numbers are varints, signed ones zigzag.
func (m *Manifest) Encode() []byte {
	b := make([]byte, 0, 64+64*(len(m.Dirs)+len(m.Entries)))
	flags := byte(0)
	if m.Git {
		flags = flagGit
	}
	base, err := hex.DecodeString(m.Base)
	if err == nil && len(base) == 32 {
		flags |= flagBase
	}
	b = append(b, manifestVersion, flags)
	if flags&flagBase != 0 {
		b = append(b, base...)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Dirs)))
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	before := ""
	for _, list := range [][]session.FileState{m.Dirs, m.Entries} {
		for _, f := range list {
			b = appendState(b, before, f)
			before = f.Path
		}
	}
	return b
}

func appendState(b []byte, before string, f session.FileState) []byte {
	shared := 0
	for shared < min(len(before), len(f.Path)) && before[shared] == f.Path[shared] {
		shared++
	}
	hash, err := hex.DecodeString(f.Hash)
	flags := byte(0)
	if f.Racy {
		flags |= flagRacy
	}
	if err == nil && len(hash) == 32 {
		flags |= flagHash
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(f.Path)-shared))
	b = append(b, f.Path[shared:]...)
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(f.Size))
	b = binary.AppendUvarint(b, uint64(f.Mode))
	b = binary.AppendVarint(b, f.MTimeNS)
	b = binary.AppendVarint(b, f.CTimeNS-f.MTimeNS)
	b = binary.AppendUvarint(b, f.Inode)
	if flags&flagHash != 0 {
		b = append(b, hash...)
	}
	return b
}

var errTorn = errors.New("the bytes end early or make no sense")

// DecodeManifest reads what Encode wrote. It returns ErrNewer for a later version and
// ErrCorrupt for anything else that it cannot read.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > 0 && b[0] > manifestVersion {
		return nil, &session.Error{Code: session.ErrNewer, Message: "the manifest of tracked files was written by a newer acode", Next: session.Words("use that acode")}
	}
	d := decoder{b: b}
	m := &Manifest{}
	if d.byte() != manifestVersion {
		d.bad = true
	}
	flags := d.byte()
	m.Git = flags&flagGit != 0
	if flags&flagBase != 0 {
		m.Base = hex.EncodeToString(d.take(32))
	}
	dirs, entries := d.uvarint(), d.uvarint()
	// Nine bytes is the least that a state takes: a count above that would only make room
	// for what cannot come.
	if most := uint64(len(b) / 9); dirs > most || entries > most {
		d.bad = true
	}
	before := ""
	for _, l := range []struct {
		list *[]session.FileState
		n    uint64
	}{{&m.Dirs, dirs}, {&m.Entries, entries}} {
		for range l.n {
			if d.bad {
				break
			}
			f := d.state(before)
			before = f.Path
			*l.list = append(*l.list, f)
		}
	}
	if d.bad || len(d.b) > 0 {
		return nil, &session.Error{Code: session.ErrCorrupt, Message: "the manifest of tracked files is damaged; nothing was changed", Cause: errTorn, Next: session.Do(session.MoveVerify, "")}
	}
	return m, nil
}

// decoder reads from the front of b; after anything bad it gives zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.take(uint64(n))
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.take(uint64(n))
	return v
}

func (d *decoder) state(before string) session.FileState {
	shared := d.uvarint()
	if shared > uint64(len(before)) {
		d.bad = true
		return session.FileState{}
	}
	f := session.FileState{Path: before[:shared] + string(d.take(d.uvarint()))}
	flags := d.byte()
	f.Racy = flags&flagRacy != 0
	f.Size = int64(d.uvarint())
	f.Mode = uint32(d.uvarint())
	f.MTimeNS = d.varint()
	f.CTimeNS = f.MTimeNS + d.varint()
	f.Inode = d.uvarint()
	if flags&flagHash != 0 {
		f.Hash = hex.EncodeToString(d.take(32))
	}
	return f
}

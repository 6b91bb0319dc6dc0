package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/acode-dev/acode/session"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

const (
	// smallBytes is the most that a blob in the database holds; larger ones are files.
	smallBytes = 64 << 10

	codecRaw  = "raw"
	codecZstd = "zstd"
	// compressed, then encrypted
	codecSealed = "sealed"
)

// pendingBlob is a small blob that the next commit makes durable.
type pendingBlob struct {
	name  session.Hash
	bytes int64
	codec string
	keyID string
	data  []byte
}

// blobName is the name of content with this SHA-256. Sealed content goes by a keyed name,
// because a short secret could be guessed from its hash.
func (k *keys) blobName(sum session.Hash, sealed bool) session.Hash {
	if !sealed {
		return sum
	}
	return mac(k.name, sum[:])
}

func newEncoder(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
}

func newDecoder(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
}

// Stage keeps exactly size bytes of r. Up to 64 KiB become durable with the next Append,
// and are sealed if redaction would change them; more is sealed in a file of its own,
// which is durable when Stage returns.
func (w *Writer) Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return w.keep(ctx, r, size, true)
}

// StageMasked keeps text that redaction has been through, like Stage, except that more
// than 64 KiB are not sealed, so that they can be delivered. Where size is negative it
// keeps all of r in a file.
func (w *Writer) StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return w.keep(ctx, r, size, false)
}

// keep seals a large content where sealed is set.
func (w *Writer) keep(ctx context.Context, r io.Reader, size int64, sealed bool) (session.BlobRef, error) {
	w.st.mu.Lock()
	err := w.usable(ctx)
	if err == nil && size >= 0 && size <= smallBytes {
		defer w.st.mu.Unlock()
		return w.stage(r, size)
	}
	w.st.mu.Unlock() // a long content holds up no commit (E4)
	if err != nil {
		return session.BlobRef{}, err
	}
	return w.st.stageLarge(r, size, sealed)
}

func (w *Writer) stage(r io.Reader, size int64) (session.BlobRef, error) {
	if size > smallBytes {
		return w.st.stageLarge(r, size, true)
	}
	content, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return session.BlobRef{}, fmt.Errorf("read content: %w", err)
	}
	if int64(len(content)) != size {
		return session.BlobRef{}, wrongSize(size)
	}
	redactor := w.st.opts.Redactor
	return w.stageSmall(content, redactor != nil && redactor.Changes(content))
}

func wrongSize(size int64) error {
	return &session.Error{Code: session.ErrFileChanged, Message: fmt.Sprintf("content of %d bytes changed its size while it was read", size), Next: session.Words("resume when nothing else writes it")}
}

func (w *Writer) stageSmall(content []byte, sealed bool) (session.BlobRef, error) {
	p, err := w.st.pack(content, sealed)
	if err != nil {
		return session.BlobRef{}, err
	}
	known := false
	for _, q := range w.pending {
		known = known || q.name == p.name
	}
	if !known {
		w.pending = append(w.pending, p)
	}
	return session.BlobRef{Hash: p.name.String(), Bytes: p.bytes, Sealed: sealed}, nil
}

func (s *Store) pack(content []byte, sealed bool) (pendingBlob, error) {
	p := pendingBlob{name: s.keys.blobName(sha256.Sum256(content), sealed), bytes: int64(len(content)), codec: codecRaw, data: content}
	packed, err := s.packer.pack(content)
	if err != nil {
		return p, fmt.Errorf("compress: %w", err)
	}
	if sealed {
		var out bytes.Buffer
		if err := sealTo(&out, s.keys, packed); err != nil {
			return p, err
		}
		p.codec, p.keyID, p.data = codecSealed, s.keys.id, out.Bytes()
	} else if len(packed) < len(content) {
		p.codec, p.data = codecZstd, packed
	}
	return p, nil
}

func sealTo(w io.Writer, k *keys, plain []byte) error {
	sw, err := newSealWriter(w, k)
	if err != nil {
		return err
	}
	if _, err := sw.Write(plain); err != nil {
		return err
	}
	return sw.Close()
}

// The names of blobs in files of their own end so.
const (
	sealedSuffix = ".sealed"
	plainSuffix  = ".zst"
)

func (s *Store) blobPath(name session.Hash, sealed bool) string {
	suffix := plainSuffix
	if sealed {
		suffix = sealedSuffix
	}
	return filepath.Join(s.blobDir(), name.String()+suffix)
}

// stageLarge writes the content through compression, and the seal where sealed is set,
// into a file whose name is known only afterwards. It takes all of r where size is
// negative.
func (s *Store) stageLarge(r io.Reader, size int64, sealed bool) (ref session.BlobRef, err error) {
	f, err := s.newBlobFile()
	if err != nil {
		return ref, storeError("make blob", err)
	}
	defer func() {
		_ = f.Close()           // closed already where it matters
		_ = os.Remove(f.Name()) // gone already where it worked
	}()
	if size >= 0 {
		r = io.LimitReader(r, size+1)
	}
	sum, n, err := s.packStream(f, r, sealed)
	if err != nil {
		return ref, storeError("write blob", err)
	}
	if size >= 0 && n != size {
		return ref, wrongSize(size)
	}
	name := s.keys.blobName(sum, sealed)
	path := s.blobPath(name, sealed)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := f.Sync(); err != nil {
			return ref, storeError("sync blob", err)
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return ref, storeError("name blob", err)
		}
	}
	// Also of a file that was there: whoever made it may have died before this.
	if err := syncDir(filepath.Dir(path)); err != nil {
		return ref, err
	}
	return session.BlobRef{Hash: name.String(), Bytes: n, Sealed: sealed}, nil
}

// unfinished begins the name of a blob that is being written. Whoever writes it holds its
// lock.
const unfinished = "new-"

func (s *Store) blobDir() string { return filepath.Join(s.opts.Home, "blobs") }

// newBlobFile makes and locks a file for a blob. Between the two Sweep may take it for
// one that was left.
func (s *Store) newBlobFile() (*os.File, error) {
	for {
		f, err := os.CreateTemp(s.blobDir(), unfinished+"*")
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if _, serr := os.Lstat(f.Name()); err == nil && serr == nil {
			return f, nil
		}
		_ = f.Close() // nothing was written
		if err != nil {
			_ = os.Remove(f.Name()) // nobody knows its name
			return nil, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// Sweep removes the blobs that a killed process left half written.
func (s *Store) Sweep() error {
	entries, err := os.ReadDir(s.blobDir())
	if err != nil {
		return storeError("list blobs", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			errs = append(errs, sweep(filepath.Join(s.blobDir(), e.Name())))
		}
	}
	return storeError("sweep blobs", errors.Join(errs...))
}

// sweep removes the file at path unless somebody writes it.
func sweep(path string) error {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errKind) { // finished since, or none of ours
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// packStream compresses r into w, sealed where that is set, and gives the SHA-256 and the
// size of r.
func (s *Store) packStream(w io.Writer, r io.Reader, sealed bool) (sum session.Hash, n int64, err error) {
	closing := func() error { return nil }
	if sealed {
		sw, err := newSealWriter(w, s.keys)
		if err != nil {
			return sum, 0, err
		}
		w, closing = sw, sw.Close
	}
	enc, err := newEncoder(w)
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(h, enc), r)
	if cerr := enc.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = closing()
	}
	h.Sum(sum[:0])
	return sum, n, err
}

// Open reads content back; see Store.OpenBlob. What Stage kept is found at once.
func (w *Writer) Open(ctx context.Context, hash string) (io.ReadCloser, error) {
	w.st.mu.Lock()
	defer w.st.mu.Unlock()
	want, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	for _, p := range w.pending {
		if p.name == want || p.name == w.st.keys.blobName(want, true) {
			return w.st.unpack(p, w.st.keys)
		}
	}
	return look(ctx, w, func(ctx context.Context, q querier) (io.ReadCloser, error) { return w.st.openBlob(ctx, q, hash) })
}

func parseHash(text string) (h session.Hash, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, &session.Error{Code: session.ErrCorrupt, Message: fmt.Sprintf("%q is not the name of a blob", text), Next: session.Do(session.MoveVerify, "")}
	}
	return session.Hash(b), nil
}

// openBlob looks for content under its own name, then under the keyed name of what is
// sealed.
func (s *Store) openBlob(ctx context.Context, q querier, hash string) (io.ReadCloser, error) {
	name, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	r, err := s.openNamed(ctx, q, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	k, kerr := s.theKeys(ctx)
	if kerr != nil {
		return nil, kerr
	}
	r, err = s.openNamed(ctx, q, k.blobName(name, true))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damagedBlob(name, errors.New("it is missing"))
	}
	return r, err
}

func damagedBlob(name session.Hash, cause error) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "a blob is missing or damaged", Place: "blob " + name.String(), Next: session.Do(session.MoveVerify, ""), Cause: cause}
}

func (s *Store) openNamed(ctx context.Context, q querier, name session.Hash) (io.ReadCloser, error) {
	p, err := readSmall(ctx, q, name)
	if errors.Is(err, sql.ErrNoRows) {
		return s.openLarge(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	if p.codec != codecSealed {
		return s.unpack(p, nil)
	}
	k, err := s.theKeys(ctx)
	if err != nil {
		return nil, err
	}
	return s.unpack(p, k)
}

// readSmall reads a blob that lies in the database; sql.ErrNoRows says that none does.
func readSmall(ctx context.Context, q querier, name session.Hash) (pendingBlob, error) {
	p := pendingBlob{name: name}
	err := q.queryRow(ctx, `SELECT bytes, codec, coalesce(key_id, ''), data FROM blobs WHERE hash = ?`, []any{name[:]}, &p.bytes, &p.codec, &p.keyID, &p.data)
	if errors.Is(err, sql.ErrNoRows) {
		return p, err
	}
	return p, rowError("read blob", "", err)
}

// unpack gives the content of a small blob, checked as a whole.
func (s *Store) unpack(p pendingBlob, k *keys) (io.ReadCloser, error) {
	content, err := s.packer.unpack(p, k)
	if err != nil {
		return nil, asDamaged(p.name, err)
	}
	sealed := p.codec == codecSealed
	if int64(len(content)) != p.bytes || k.blobName(sha256.Sum256(content), sealed) != p.name || sealed != (p.keyID != "") || sealed && p.keyID != k.id {
		return nil, damagedBlob(p.name, errors.New("its content does not match its name"))
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func asDamaged(name session.Hash, err error) error {
	if errors.Is(err, session.ErrKey) {
		return err
	}
	return damagedBlob(name, err)
}

// openLarge opens a file of its own, or returns fs.ErrNotExist.
func (s *Store) openLarge(ctx context.Context, name session.Hash) (io.ReadCloser, error) {
	r, err := s.openPlain(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	f, err := s.openFile(name, true)
	if err != nil {
		return nil, err
	}
	k, err := s.theKeys(ctx)
	if err == nil {
		var plain io.Reader
		if plain, err = newUnsealer(f, k); err == nil {
			return newChecked(f, plain, name, k)
		}
		err = asDamaged(name, err)
	}
	_ = f.Close() // it was only read
	return nil, err
}

// openPlain opens a file of its own that is not sealed, or returns fs.ErrNotExist. It
// needs no key.
func (s *Store) openPlain(name session.Hash) (io.ReadCloser, error) {
	f, err := s.openFile(name, false)
	if err != nil {
		return nil, err
	}
	return newChecked(f, f, name, nil)
}

func (s *Store) openFile(name session.Hash, sealed bool) (*os.File, error) {
	f, err := openRegular(s.blobPath(name, sealed))
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return f, err
	case errors.Is(err, errKind):
		return nil, damagedBlob(name, err)
	}
	return nil, storeError("open blob", err)
}

// checkedReader compares the content with its name when it comes to its end.
type checkedReader struct {
	r    io.ReadCloser
	f    *os.File
	sum  hash.Hash
	name session.Hash
	// nil: it was not sealed
	keys *keys
}

// newChecked reads what packed, which f holds, gives.
func newChecked(f *os.File, packed io.Reader, name session.Hash, k *keys) (io.ReadCloser, error) {
	d, err := newDecoder(packed)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, asDamaged(name, err)
	}
	return &checkedReader{r: d.IOReadCloser(), f: f, sum: sha256.New(), name: name, keys: k}, nil
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	if err == io.EOF {
		if c.keys.blobName(session.Hash(c.sum.Sum(nil)), c.keys != nil) != c.name {
			return n, damagedBlob(c.name, errors.New("its content does not match its name"))
		}
		return n, io.EOF
	}
	if err != nil {
		return n, damagedBlob(c.name, err)
	}
	return n, nil
}

func (c *checkedReader) Close() error {
	return errors.Join(c.r.Close(), c.f.Close())
}

// packer compresses what lies in the database. To make a coder costs more than to use it
// on something small, so each is made once. It is safe for concurrent use.
type packer struct {
	mu  sync.Mutex
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func (p *packer) pack(content []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enc == nil {
		enc, err := newEncoder(nil)
		if err != nil {
			return nil, err
		}
		p.enc = enc
	}
	return p.enc.EncodeAll(content, nil), nil
}

// unpack undoes the codec of b; k is needed for what is sealed.
func (p *packer) unpack(b pendingBlob, k *keys) ([]byte, error) {
	packed := b.data
	switch b.codec {
	case codecRaw:
		return packed, nil
	case codecSealed:
		u, err := newUnsealer(bytes.NewReader(packed), k)
		if err != nil {
			return nil, err
		}
		if packed, err = io.ReadAll(u); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			return nil, err
		}
		p.dec = dec
	}
	return p.dec.DecodeAll(packed, make([]byte, 0, min(max(b.bytes, 0), smallBytes)))
}

// maxUnpacked bounds what damaged bytes can be taken for.
const maxUnpacked = 1 << 20

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
	// smallBytes is the largest size of a blob in the database. Larger blobs are files.
	smallBytes = 64 << 10

	codecRaw  = "raw"
	codecZstd = "zstd"
	// codecSealed is compressed first, then encrypted.
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

// blobName returns the name of content with this SHA-256. Sealed content has a keyed
// name, because a short secret could be guessed from its hash.
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

// Stage stores exactly size bytes of r. Content of up to 64 KiB becomes durable with the
// next Append, and is sealed if redaction would change it. Larger content is sealed in a
// file, which is durable when Stage returns.
func (w *Writer) Stage(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return w.keep(ctx, r, size, true)
}

// StageMasked stores text that was already redacted. It is like Stage, but content of
// more than 64 KiB is not sealed, so that it can be delivered. If size is negative,
// StageMasked stores all of r in a file.
func (w *Writer) StageMasked(ctx context.Context, r io.Reader, size int64) (session.BlobRef, error) {
	return w.keep(ctx, r, size, false)
}

// keep stores content; sealed says whether large content is sealed.
func (w *Writer) keep(ctx context.Context, r io.Reader, size int64, sealed bool) (session.BlobRef, error) {
	w.st.mu.Lock()
	err := w.usable(ctx)
	if err == nil && size >= 0 && size <= smallBytes {
		defer w.st.mu.Unlock()
		return w.stage(r, size)
	}
	w.st.mu.Unlock() // long content must not delay commits (E4)
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
	return &session.Error{Code: session.ErrFileChanged, Message: fmt.Sprintf("content of %d bytes changed its size while it was read", size), Next: session.Words("resume when no other process writes it")}
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

// Suffixes of the names of blob files.
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

// stageLarge compresses the content into a file, and seals it if sealed is set. The name
// is known only when all content was read. A negative size means all of r.
func (s *Store) stageLarge(r io.Reader, size int64, sealed bool) (ref session.BlobRef, err error) {
	f, err := s.newBlobFile()
	if err != nil {
		return ref, storeError("make blob", err)
	}
	defer func() {
		_ = f.Close()           // already closed on success
		_ = os.Remove(f.Name()) // already renamed on success
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
	// Sync the directory even if the file was there: the process that made it may have
	// died before it did this.
	if err := syncDir(filepath.Dir(path)); err != nil {
		return ref, err
	}
	return session.BlobRef{Hash: name.String(), Bytes: n, Sealed: sealed}, nil
}

// unfinished is the prefix of the name of a blob that is being written. The process that
// writes it holds its lock.
const unfinished = "new-"

func (s *Store) blobDir() string { return filepath.Join(s.opts.Home, "blobs") }

// newBlobFile makes and locks a file for a blob. Sweep may remove the file before it is
// locked; then newBlobFile makes another one.
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
			_ = os.Remove(f.Name()) // no blob has this name
			return nil, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// Sweep removes the unfinished blobs of processes that were killed.
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

// sweep removes the file at path unless a process is writing it.
func sweep(path string) error {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errKind) { // renamed meanwhile, or not a file of acode
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

// packStream compresses r into w, and seals it if sealed is set. It returns the SHA-256
// and the size of r.
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

// Open reads content; see Store.OpenBlob. Staged content can be read before it is
// committed.
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

// openBlob looks for content under its own name, then under the keyed name of sealed
// content.
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

// readSmall reads a blob from the database. It returns sql.ErrNoRows when the database
// does not have the blob.
func readSmall(ctx context.Context, q querier, name session.Hash) (pendingBlob, error) {
	p := pendingBlob{name: name}
	err := q.queryRow(ctx, `SELECT bytes, codec, coalesce(key_id, ''), data FROM blobs WHERE hash = ?`, []any{name[:]}, &p.bytes, &p.codec, &p.keyID, &p.data)
	if errors.Is(err, sql.ErrNoRows) {
		return p, err
	}
	return p, rowError("read blob", "", err)
}

// unpack returns the content of a small blob after checking all of it.
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

// openLarge opens a blob file. It returns fs.ErrNotExist when there is none.
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

// openPlain opens a blob file that is not sealed. It returns fs.ErrNotExist when there is
// none. It needs no key.
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

// checkedReader compares the content with its name when it reaches the end.
type checkedReader struct {
	r    io.ReadCloser
	f    *os.File
	sum  hash.Hash
	name session.Hash
	// nil if the content is not sealed
	keys *keys
}

// newChecked returns a reader of the uncompressed content of packed, which reads from f.
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

// packer compresses and uncompresses blobs in the database. To make a coder costs more
// than to use it for a small blob, so packer makes each once. It is safe for concurrent
// use.
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

// unpack returns the content of b. It uses k only if b is sealed.
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

// maxUnpacked limits the memory that damaged data can make the decoder use.
const maxUnpacked = 1 << 20

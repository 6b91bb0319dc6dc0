package local

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/acode-dev/acode/session"
)

// A sealed blob is a header and chunks of AES-256-GCM. The nonce of a chunk holds its
// index and whether it is the last, so that no chunk can be removed, moved or added. The
// key is derived from the store's key and a random salt, so that nonces never repeat
// under one key.

const (
	sealMagic  = "ACSEAL1\x00"
	sealChunk  = 64 << 10
	saltBytes  = 16
	sealHeader = len(sealMagic) + 8 + saltBytes
)

func (k *keys) aead(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.seal, salt, "acode blob v1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func nonce(index uint32, last bool) []byte {
	n := make([]byte, 12)
	binary.BigEndian.PutUint32(n[7:], index)
	n[11] = byte(bit(last))
	return n
}

// sealWriter encrypts its input; Close writes the last chunk.
type sealWriter struct {
	w      io.Writer
	aead   cipher.AEAD
	header []byte
	buf    []byte
	index  uint32
}

func newSealWriter(w io.Writer, k *keys) (*sealWriter, error) {
	header := append([]byte(sealMagic), k.id...)
	salt := make([]byte, saltBytes)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("make salt: %w", err)
	}
	header = append(header, salt...)
	aead, err := k.aead(salt)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(header); err != nil {
		return nil, err
	}
	return &sealWriter{w: w, aead: aead, header: header, buf: make([]byte, 0, sealChunk)}, nil
}

func (s *sealWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.buf) == sealChunk { // more follows, so this one is not the last
			if err := s.flush(false); err != nil {
				return 0, err
			}
		}
		took := min(len(p), sealChunk-len(s.buf))
		s.buf, p = append(s.buf, p[:took]...), p[took:]
	}
	return n, nil
}

func (s *sealWriter) flush(last bool) error {
	_, err := s.w.Write(s.aead.Seal(nil, nonce(s.index, last), s.buf, s.header))
	s.buf, s.index = s.buf[:0], s.index+1
	return err
}

func (s *sealWriter) Close() error { return s.flush(true) }

// unsealer decrypts. It returns no byte of a chunk that is not authentic.
type unsealer struct {
	r      *bufio.Reader
	aead   cipher.AEAD
	header []byte
	chunk  []byte
	plain  []byte
	index  uint32
	last   bool
}

// newUnsealer returns ErrKey when r was sealed with another key than k.
func newUnsealer(r io.Reader, k *keys) (*unsealer, error) {
	u := &unsealer{r: bufio.NewReaderSize(r, sealChunk+17), header: make([]byte, sealHeader)}
	if _, err := io.ReadFull(u.r, u.header); err != nil || string(u.header[:len(sealMagic)]) != sealMagic {
		return nil, errors.New("not a sealed blob")
	}
	if id := string(u.header[len(sealMagic) : len(sealMagic)+8]); id != k.id {
		return nil, &session.Error{Code: session.ErrKey, Message: fmt.Sprintf("a blob is sealed with key %q, which is missing; the key of this store is %s", id, k.id), Next: session.Words("make that key available again")}
	}
	aead, err := k.aead(u.header[len(sealMagic)+8:])
	u.aead, u.chunk = aead, make([]byte, sealChunk+aead.Overhead())
	return u, err
}

func (u *unsealer) Read(p []byte) (int, error) {
	for len(u.plain) == 0 {
		if u.last {
			return 0, io.EOF
		}
		if err := u.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.plain)
	u.plain = u.plain[n:]
	return n, nil
}

func (u *unsealer) next() error {
	n, err := io.ReadFull(u.r, u.chunk)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the sealed blob is cut short")
	}
	if _, err := u.r.Peek(1); err == io.EOF {
		u.last = true
	}
	u.plain, err = u.aead.Open(u.chunk[:0], nonce(u.index, u.last), u.chunk[:n], u.header)
	u.index++
	return err
}

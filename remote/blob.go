package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/acode-dev/acode/session"
)

// MaxChunkBytes limits the compressed bytes of a blob that one call sends.
const MaxChunkBytes = 1 << 20

// MissingBlobs returns those hashes, in hex, of which this role has no whole blob on the
// server.
func (s *Server) MissingBlobs(ctx context.Context, hashes []string) ([]string, error) {
	wanted := make([][]byte, len(hashes))
	for i, h := range hashes {
		var err error
		if wanted[i], err = parseHash(h); err != nil {
			return nil, refused(err)
		}
	}
	var missing []string
	var sum []byte
	err := s.ask(ctx, []any{&sum}, func() error { missing = append(missing, hex.EncodeToString(sum)); return nil },
		call{`SELECT hash FROM acode.missing_blobs($1)`, []any{wanted}})
	return missing, s.fault(err)
}

func parseHash(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("%q is no SHA-256 in hex", s)
	}
	return b, nil
}

// PutBlob stores content of size bytes under its SHA-256 in hex. It sends a zstd stream
// in chunks of at most MaxChunkBytes, each in its own call. It may be repeated after any
// failure, and then sends only the missing chunks. PutBlob refuses content that does not
// match hash and size before it declares the blob whole.
func (s *Server) PutBlob(ctx context.Context, hash string, size int64, content io.Reader) error {
	sum, err := parseHash(hash)
	if err != nil {
		return refused(err)
	}
	u := &upload{ctx: ctx, server: s, hash: sum, chunk: []byte{}}
	plain := sha256.New()
	z, err := zstd.NewWriter(u, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return fmt.Errorf("prepare compression: %w", err)
	}
	n, err := io.Copy(z, io.TeeReader(io.LimitReader(content, size+1), plain))
	if closed := z.Close(); err == nil {
		err = closed
	}
	if u.failed != nil {
		return s.fault(u.failed)
	}
	if err != nil {
		return fmt.Errorf("read blob: %w", err)
	}
	if n != size || [32]byte(plain.Sum(nil)) != [32]byte(sum) {
		return refused(fmt.Errorf("the content of blob %s is not the one of that name", hash))
	}
	return s.fault(u.finish(size))
}

// upload cuts a stream into chunks and sends those that the server does not have.
type upload struct {
	ctx    context.Context
	server *Server
	hash   []byte
	chunk  []byte
	// n is the number of the chunk that is being filled.
	n int
	// sums holds the sums of the earlier chunks, one after the other.
	sums []byte
	// there holds the sums of the server's chunks by number; nil until they were
	// requested.
	there  map[int]session.Hash
	failed error
}

// Write takes a part of the stream. finish sends the last chunk, even if it is full.
func (u *upload) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 && u.failed == nil {
		if len(u.chunk) == MaxChunkBytes {
			u.failed = u.send()
			continue
		}
		k := min(len(p), MaxChunkBytes-len(u.chunk))
		u.chunk, p = append(u.chunk, p[:k]...), p[k:]
	}
	return total - len(p), u.failed
}

// send sends a chunk that is not the last one, unless the server has it.
func (u *upload) send() error {
	if u.there == nil {
		if err := u.ask(); err != nil {
			return err
		}
	}
	there := u.there[u.n]
	sum, c := u.put()
	if there == sum {
		return nil
	}
	return u.server.ask(u.ctx, nil, nil, c)
}

// ask requests the sums of the chunks that the server has.
func (u *upload) ask() error {
	u.there = map[int]session.Hash{}
	var n int
	var sum hash
	return u.server.ask(u.ctx, []any{&n, &sum}, func() error { u.there[n] = session.Hash(sum); return nil },
		call{`SELECT n, sum FROM acode.blob_sums($1)`, []any{u.hash}})
}

// put returns the call that stores the chunk, and begins the next one.
func (u *upload) put() (sum session.Hash, c call) {
	sum = sha256.Sum256(u.chunk)
	c = call{`SELECT acode.put_chunk($1, $2, $3, $4)`, []any{u.hash, int32(u.n), sum[:], u.chunk}}
	u.sums, u.chunk = append(u.sums, sum[:]...), u.chunk[:0]
	u.n++
	return sum, c
}

// finish sends the last chunk and declares the blob whole, in one round trip.
func (u *upload) finish(size int64) error {
	_, last := u.put()
	sums := sha256.Sum256(u.sums)
	done := call{`SELECT acode.finish_blob($1, $2, $3, $4)`, []any{u.hash, size, int32(u.n), sums[:]}}
	return u.server.ask(u.ctx, nil, nil, last, done)
}

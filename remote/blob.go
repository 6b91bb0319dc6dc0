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

// MaxChunkBytes bounds what one call sends of a blob, compressed.
const MaxChunkBytes = 1 << 20

// MissingBlobs gives those of hashes, in hex, that the server does not have whole of this
// role.
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

// PutBlob stores content of size bytes under its SHA-256 in hex, as a zstd stream in
// chunks of at most MaxChunkBytes, each a call of its own. It may be done again after any
// failure: chunks that are there are not sent again. Content that is not what hash and
// size say is refused before it is declared whole.
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
	// of the chunk that is being filled
	n int
	// of the chunks before it, one after the other
	sums []byte
	// sums of what the server has by number; nil: not asked yet
	there  map[int]session.Hash
	failed error
}

// Write takes a part of the stream. The last chunk, be it full, waits for finish.
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

// send sends a chunk that is not the last one, unless it is there.
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

// ask asks which chunks the server has.
func (u *upload) ask() error {
	u.there = map[int]session.Hash{}
	var n int
	var sum hash
	return u.server.ask(u.ctx, []any{&n, &sum}, func() error { u.there[n] = session.Hash(sum); return nil },
		call{`SELECT n, sum FROM acode.blob_sums($1)`, []any{u.hash}})
}

// put gives the call that stores the chunk, and begins the next one.
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

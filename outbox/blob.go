package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/acode-dev/acode/session"
)

const (
	// slowestBytes is the rate per second that an upload must keep up on the whole.
	slowestBytes = 32 << 10

	// maxKnownBlobs bounds what is remembered of uploads; beyond it everything is forgotten and
	// asked for again.
	maxKnownBlobs = 10_000
)

// blobSet remembers which blobs the server has whole: those that acknowledged events name, so
// that a server which lost one is noticed by its mark.
type blobSet struct {
	mu     sync.Mutex
	hashes map[string]bool
}

func (b *blobSet) has(hash string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hashes[hash]
}

func (b *blobSet) add(hashes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hashes == nil || len(b.hashes) >= maxKnownBlobs {
		b.hashes = map[string]bool{}
	}
	for _, h := range hashes {
		b.hashes[h] = true
	}
}

// sendBlobs puts the content that a delivery names on the server before it, and gives what it
// had to ask for.
func (s *Syncer) sendBlobs(ctx context.Context, all []session.BlobRef, sent *blobSet) (named []string, err error) {
	refs := map[string]session.BlobRef{}
	for _, ref := range all {
		if _, twice := refs[ref.Hash]; twice || ref.Sealed || ref.Hash == "" || sent.has(ref.Hash) {
			continue
		}
		refs[ref.Hash] = ref
		named = append(named, ref.Hash)
	}
	for page := range slices.Chunk(named, blobsPage) {
		if err := s.sendMissing(ctx, page, refs); err != nil {
			return nil, err
		}
	}
	return named, nil
}

func (s *Syncer) sendMissing(ctx context.Context, page []string, refs map[string]session.BlobRef) error {
	missing, err := call(ctx, s.opts.Timeout, func(ctx context.Context) ([]string, error) {
		return s.opts.Remote.MissingBlobs(ctx, page)
	})
	if err != nil {
		return err
	}
	for _, hash := range missing {
		if err := s.sendBlob(ctx, hash, refs[hash].Bytes); err != nil {
			return err
		}
	}
	return nil
}

// sendBlob uploads one blob. A failure of the store's own reader is not taken for the server's.
func (s *Syncer) sendBlob(ctx context.Context, hash string, size int64) error {
	content, err := s.opts.Source.Blob(ctx, hash)
	if err != nil {
		return &storeTrouble{fmt.Errorf("open blob %s: %w", hash, err)}
	}
	defer content.Close()
	r := &faultReader{r: content}
	limit := s.opts.Timeout + time.Duration(size/slowestBytes)*time.Second
	_, err = call(ctx, limit, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.opts.Remote.PutBlob(ctx, hash, size, r)
	})
	if r.err != nil && ctx.Err() == nil {
		return &storeTrouble{fmt.Errorf("read blob %s: %w", hash, r.err)}
	}
	return err
}

// faultReader remembers why reading failed.
type faultReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (f *faultReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

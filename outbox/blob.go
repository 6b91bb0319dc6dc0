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

// uploader puts content on a server.
type uploader struct {
	from    Opener
	to      Uploads
	timeout time.Duration // of a call, beside what its content takes
}

// send puts the content that a delivery names on the server before it, and gives what it had to ask for.
func (u uploader) send(ctx context.Context, all []session.BlobRef, sent *blobSet) (named []string, err error) {
	sizes := map[string]int64{}
	for _, ref := range all {
		if _, twice := sizes[ref.Hash]; twice || ref.Sealed || ref.Hash == "" || sent.has(ref.Hash) {
			continue
		}
		sizes[ref.Hash] = ref.Bytes
		named = append(named, ref.Hash)
	}
	for page := range slices.Chunk(named, blobsPage) {
		missing, err := call(ctx, u.timeout, func(ctx context.Context) ([]string, error) { return u.to.MissingBlobs(ctx, page) })
		if err != nil {
			return nil, err
		}
		for _, hash := range missing {
			if err := u.put(ctx, hash, sizes[hash]); err != nil {
				return nil, err
			}
		}
	}
	return named, nil
}

// put uploads one blob. A failure of the store's own reader is not taken for the server's.
func (u uploader) put(ctx context.Context, hash string, size int64) error {
	content, err := u.from.Blob(ctx, hash)
	if err != nil {
		return &storeTrouble{fmt.Errorf("open blob %s: %w", hash, err)}
	}
	defer content.Close()
	r := &faultReader{r: content}
	limit := u.timeout + time.Duration(size/slowestBytes)*time.Second
	_, err = call(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, u.to.PutBlob(ctx, hash, size, r) })
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

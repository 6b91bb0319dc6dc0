package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/acode-dev/acode/session"
)

// slowestBytes is the least average rate of an upload, in bytes per second.
const slowestBytes = 32 << 10

// upload puts the content that a delivery names on the server first. It asks the server
// each time, because a restored server has lost content too.
func (s *Syncer) upload(ctx context.Context, all []session.BlobRef) error {
	sizes := map[string]int64{}
	for _, ref := range all {
		if !ref.Sealed && ref.Hash != "" {
			sizes[ref.Hash] = ref.Bytes
		}
	}
	for page := range slices.Chunk(slices.Sorted(maps.Keys(sizes)), blobsPage) {
		missing, err := call(ctx, s.opts.Timeout, func(ctx context.Context) ([]string, error) { return s.opts.Remote.MissingBlobs(ctx, page) })
		if err != nil {
			return err
		}
		for _, hash := range missing {
			if err := s.put(ctx, hash, sizes[hash]); err != nil {
				return err
			}
		}
	}
	return nil
}

// put uploads one blob. It does not report a failure of the store's own reader as one of
// the server.
func (s *Syncer) put(ctx context.Context, hash string, size int64) error {
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

//go:build !linux

package syncer

import "context"

// watchNetwork has no way here to learn of a change; the backoff alone will do.
func watchNetwork(ctx context.Context, _ func()) { <-ctx.Done() }

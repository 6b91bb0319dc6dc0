package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/acode-dev/acode/internal/disk"
)

const (
	// flushSwitch is the first argument of the child that mounts a disk.
	flushSwitch = "bench-flush"

	// flushTime is how long many disks take to flush their cache. The cache of a virtual
	// disk costs next to nothing.
	flushTime = time.Millisecond
)

// flushed is a comparison on a disk with slow flushes.
type flushed struct {
	name    string
	limit   float64
	compare func(ctx context.Context, dir string) (durable, raw sample, err error)
}

func allFlushed() []flushed {
	return []flushed{
		{"durable operation", 1.2, func(ctx context.Context, dir string) (durable, raw sample, err error) {
			durable, raw, _, err = operations(ctx, dir)
			return durable, raw, err
		}},
		{"file step (write)", 1.3, func(ctx context.Context, dir string) (durable, raw sample, err error) {
			return compareFileSteps(ctx, dir, false)
		}},
		{"file step (edit)", 1.3, func(ctx context.Context, dir string) (durable, raw sample, err error) {
			return compareFileSteps(ctx, dir, true)
		}},
	}
}

// flushes measures on file systems whose disk takes flushTime for each flush. One flush
// more than the raw side is then visible.
func (b *bench) flushes(context.Context) error {
	for _, kind := range disk.Kinds() {
		for i, f := range allFlushed() {
			what := fmt.Sprintf("%s, %s on a disk that flushes in %v", f.name, kind.Name, flushTime)
			if err := kind.Possible(); err != nil {
				b.report.line(row{what: what, detail: "not measured: " + err.Error()})
				continue
			}
			dir, err := b.place(fmt.Sprintf("flush-%s-%d", kind.Name, i))
			if err != nil {
				return err
			}
			durable, raw, err := flush(kind.Name, i, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			b.report.ratio(what, durable, raw, f.limit)
		}
	}
	return nil
}

// flush runs one child and reads its pairs. The mounts of the child end with it.
func flush(kind string, what int, dir string) (durable, raw sample, err error) {
	done := make(chan struct{})
	// The thread of this goroutine stays locked and ends with it.
	go func() {
		defer close(done)
		var out []byte
		if out, err = disk.AloneCommand(flushSwitch, kind, strconv.Itoa(what), dir).Output(); err == nil {
			durable, raw, err = pairs(out)
		}
	}()
	<-done
	return durable, raw, err
}

// flushChild measures one of allFlushed on a disk below a directory and prints the pairs.
func flushChild(ctx context.Context, args []string) (err error) {
	what, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	kinds := disk.Kinds()
	kind := kinds[slices.IndexFunc(kinds, func(k disk.Kind) bool { return k.Name == args[0] })]
	d, err := kind.Format(ctx, args[2])
	if err != nil {
		return err
	}
	d.Slow(flushTime)
	m, err := kind.Mount(d, args[2])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	durable, raw, err := allFlushed()[what].compare(ctx, m.Dir())
	printPairs(durable, raw)
	return err
}

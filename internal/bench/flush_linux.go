package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acode-dev/acode/internal/disk"
)

// flushTime is what many disks take to write their cache out; that of a virtual one costs next to nothing.
const flushTime = time.Millisecond

// flushes measures durable operations on file systems whose disk takes its time for each flush: what
// costs a flush more than the raw side shows there.
func (b *bench) flushes(ctx context.Context) error {
	for _, kind := range disk.Kinds() {
		what := fmt.Sprintf("durable operation, %s on a disk that flushes in %v", kind.Name, flushTime)
		if err := kind.Possible(); err != nil {
			b.report.line(row{what: what, detail: "not measured: " + err.Error()})
			continue
		}
		all, raw, err := b.flushing(ctx, kind)
		if err != nil {
			return err
		}
		b.report.ratio(what, all, raw, 1.5)
	}
	return nil
}

// flushing measures on one kind of file system.
func (b *bench) flushing(ctx context.Context, kind disk.Kind) (all, raw sample, err error) {
	dir, err := b.place("flush-" + kind.Name)
	if err != nil {
		return nil, nil, err
	}
	d, err := kind.Format(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	d.Slow(flushTime)
	m, err := kind.Mount(d, dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	all, raw, _, err = operations(ctx, m.Dir())
	return all, raw, err
}

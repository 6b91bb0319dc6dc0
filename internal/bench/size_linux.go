package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/acode-dev/acode/session"
)

// bytesPerStep measures the growth of the database. Opening a store copies its log into
// the database.
func (b *bench) bytesPerStep(ctx context.Context) error {
	dir, err := b.place("bytes")
	if err != nil {
		return err
	}
	home := filepath.Join(dir, "home")
	st, err := openStore(ctx, home)
	if err != nil {
		return err
	}
	w, err := newSession(ctx, st, 10000)
	if err != nil {
		return err
	}
	id := w.Session().ID
	if err := errors.Join(w.Close(), st.Close()); err != nil {
		return err
	}
	var last int64
	done := 0
	for _, n := range []int{100, 1000, 10000} {
		now, err := grow(ctx, home, id, done, n)
		if err != nil {
			return err
		}
		if done > 0 {
			b.report.count(fmt.Sprintf("bytes of acode.db per step, steps %d to %d", done, n), float64(now-last)/float64(n-done), 1800, "1,000 B result; log copied back")
		}
		last, done = now, n
	}
	return nil
}

// grow does steps from (included) up to to (excluded) and returns the size of the
// database.
func grow(ctx context.Context, home string, id session.ID, from, to int) (int64, error) {
	st, err := openStore(ctx, home)
	if err != nil {
		return 0, err
	}
	w, err := st.Load(ctx, id)
	if err != nil {
		return 0, err
	}
	// A batch takes as many bytes as its events would take one by one.
	for from < to {
		var ds []session.Draft
		for ; len(ds) < 80 && from < to; from++ {
			ds = append(ds, intentOf(w, from), receiptOf(w, from))
		}
		if _, err := w.Append(ctx, ds...); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(w.Close(), st.Close()); err != nil {
		return 0, err
	}
	if st, err = openStore(ctx, home); err != nil {
		return 0, err
	}
	if err := st.Close(); err != nil {
		return 0, err
	}
	info, err := os.Stat(filepath.Join(home, "acode.db"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

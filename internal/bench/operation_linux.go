package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/local"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

const (
	// operateSwitch is the first argument of the child that does operations.
	operateSwitch = "bench-operate"
	// processes is the number of children. Each has a first operation.
	processes   = 20
	perProcess  = 60
	resultBytes = 1000
)

// operation compares durable operations with raw synced writes.
func (b *bench) operation(ctx context.Context) error {
	dir, err := b.place("operation")
	if err != nil {
		return err
	}
	all, raw, first, err := operations(ctx, dir)
	if err != nil {
		return err
	}
	b.report.ratio("durable operation / synced overwrite of its bytes", all, raw, 1.8)
	b.report.ratio("… the first one of a process alone", first, raw, 15)
	b.report.times("checkpoint creation (a receipt with its checkpoint)", all, 50, 100, "target, maximum")
	return nil
}

// operations does both in turn in dir. Each process contributes its first operation,
// which is slower.
func operations(ctx context.Context, dir string) (all, raw, first sample, err error) {
	st, err := openStore(ctx, filepath.Join(dir, "home"))
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := newSession(ctx, st, processes*perProcess+1)
	if err != nil {
		return nil, nil, nil, err
	}
	id := w.Session().ID
	if err := errors.Join(start(ctx, w, 0), w.Close(), st.Close(), preallocate(filepath.Join(dir, "raw"))); err != nil {
		return nil, nil, nil, err
	}
	for range processes {
		durable, plain, err := operate(ctx, dir, id)
		if err != nil {
			return nil, nil, nil, err
		}
		all, raw, first = append(all, durable...), append(raw, plain...), append(first, durable[0])
	}
	return all, raw, first, nil
}

// operate runs one child and reads its pairs.
func operate(ctx context.Context, dir string, id session.ID) (durable, raw sample, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	out, err := exec.CommandContext(ctx, self, operateSwitch, dir, string(id), strconv.Itoa(perProcess)).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("operate: %w", err)
	}
	return pairs(out)
}

// pairs parses the output of printPairs.
func pairs(out []byte) (durable, raw sample, err error) {
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		var d, r int64
		if _, err := fmt.Sscan(s.Text(), &d, &r); err != nil {
			return nil, nil, fmt.Errorf("read pair: %w", err)
		}
		durable, raw = append(durable, d), append(raw, r)
	}
	return durable, raw, nil
}

// operateChild does durable operations and raw writes in turn and prints their times.
func operateChild(ctx context.Context, args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	st, err := openStore(ctx, filepath.Join(args[0], "home"))
	if err != nil {
		return err
	}
	w, err := st.Load(ctx, session.ID(args[1]))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(args[0], "raw"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var durable, raw sample
	for i := range n {
		receipt, intent := drafts(w)
		same, err := bytesOf(receipt, intent)
		if err != nil {
			return err
		}
		err = errors.Join(
			durable.timed(func() error { return step(ctx, w, receipt, intent) }),
			raw.timed(func() error { return overwrite(file, same, i) }))
		if err != nil {
			return err
		}
	}
	printPairs(durable, raw)
	return errors.Join(file.Close(), w.Close(), st.Close())
}

func printPairs(durable, raw sample) {
	for i := range durable {
		fmt.Println(durable[i], raw[i])
	}
}

// step makes the store calls of the engine for a step without an effect of its own.
func step(ctx context.Context, w *local.Writer, drafts ...session.Draft) error {
	if _, err := w.Requests(ctx); err != nil {
		return err
	}
	_, err := w.Append(ctx, drafts...)
	return err
}

// rawBytes is the size of the overwritten file. The store's log has the same size.
const rawBytes = 4 << 20

func preallocate(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, rawBytes))
	return errors.Join(err, f.Sync(), f.Close())
}

// overwrite writes b at the position of the next write of a store's log, and syncs it.
func overwrite(f *os.File, b []byte, i int) error {
	if _, err := f.WriteAt(b, int64(i)*8192%(rawBytes-int64(len(b)))); err != nil {
		return err
	}
	return unix.Fdatasync(int(f.Fd()))
}

func openStore(ctx context.Context, home string) (*local.Store, error) {
	return local.Open(ctx, local.Options{Home: home, Now: now, Redactor: redact.New(redact.FromEnvironment(os.Environ())), Version: "bench", Env: os.Getenv})
}

// newSession begins a session of n reading steps and returns it while it executes.
func newSession(ctx context.Context, st *local.Store, n int) (*local.Writer, error) {
	p := &session.Plan{Version: 1, Task: "bench", OnFailure: session.FailurePauses, Tasks: []session.Task{{ID: "t"}}}
	for i := range n {
		p.Tasks[0].Steps = append(p.Tasks[0].Steps, session.Step{ID: stepID(i).Step, Kind: session.KindRead, Read: &session.Read{Path: "a"}})
	}
	id, err := st.NewID()
	if err != nil {
		return nil, err
	}
	w, err := st.Create(ctx, local.NewSession{ID: id, Task: "bench", Workspace: "/workspace", Plan: p})
	if err != nil {
		return nil, err
	}
	_, err = w.Append(ctx,
		session.Draft{Type: session.ExecutionAcquired, Data: session.ExecutionAcquiredData{Device: st.Device(), Host: "h", PID: 1, Workspace: "/workspace"}},
		session.Draft{Type: session.StateChanged, Data: session.StateChangedData{From: session.Planning, To: session.Executing}})
	return w, err
}

func stepID(i int) session.StepID {
	return session.StepID{Task: "t", Step: fmt.Sprintf("s%05d", i+1)}
}

func start(ctx context.Context, w *local.Writer, i int) error {
	_, err := w.Append(ctx, intentOf(w, i))
	return err
}

func key(w *local.Writer, id session.StepID, attempt int) string {
	return session.Key{Session: w.Session().ID, Step: id, Operation: session.OpMain, Attempt: attempt}.String()
}

func intentOf(w *local.Writer, i int) session.Draft {
	sum := sha256.Sum256([]byte(strconv.Itoa(i)))
	return session.Draft{Type: session.StepStarted, Data: session.StepStartedData{
		StepID: stepID(i), Kind: session.KindRead, Key: key(w, stepID(i), 1), Attempt: 1, Digest: hex.EncodeToString(sum[:])}}
}

func receiptOf(w *local.Writer, i int) session.Draft {
	text := strings.Repeat(fmt.Sprintf("%07d ", i*7919%10_000_000), resultBytes/8)
	return session.Draft{Type: session.StepCompleted, Data: session.StepCompletedData{
		StepID: stepID(i), Key: key(w, stepID(i), 1), Attempt: 1, Matches: &session.Output{Text: text, Bytes: resultBytes}}}
}

// drafts returns the receipt of the running step and the intent of the next one.
func drafts(w *local.Writer) (receipt, intent session.Draft) {
	i := w.Session().Done
	return receiptOf(w, i), intentOf(w, i+1)
}

// bytesOf encodes the data of drafts as a journal without structure would.
func bytesOf(ds ...session.Draft) ([]byte, error) {
	var out []byte
	for _, d := range ds {
		b, err := json.Marshal(d.Data)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

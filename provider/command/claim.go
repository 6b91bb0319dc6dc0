package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/process"
	"github.com/acode-dev/acode/session"
)

// A claim is claimBytes long from its first instant, so that later blocks never need
// space. The start block has a sector of its own, and so has the beginning of an ordinary
// exit block.
const (
	claimVersion = 1
	claimBytes   = 4096
	headerAt     = 0
	startAt      = 1024
	exitAt       = 1536
	blockHead    = 4 + sha256.Size
	claimSuffix  = ".claim"
)

// The states of a claim. A void claim decides that its command is never started; it needs
// no other record.
const (
	stateClaimed = "claimed"
	stateVoid    = "void"
)

type header struct {
	V       int        `json:"v"`
	State   string     `json:"state"`
	Key     string     `json:"key"`
	Epoch   uint64     `json:"epoch"`
	Session session.ID `json:"session"`
	// Request is a digest of the parts of the request that do not change across a resume.
	Request string `json:"request,omitempty"`
	// Split is set if standard error is kept apart.
	Split      bool       `json:"split,omitempty"`
	Supervisor process.ID `json:"supervisor"`
	AtUS       int64      `json:"at_us"`
}

type startBlock struct {
	Leader    process.ID `json:"leader"`
	StartedUS int64      `json:"started_us"`
	// Sandbox names what the kernel enforces for the command; empty for nothing.
	Sandbox string `json:"sandbox,omitempty"`
}

// leftover is a descendant that outlived its leader. Its command line stays off the disk:
// it may hold a secret.
type leftover struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Name  string `json:"name"`
}

// exitBlock is how a command ended. With Unknown set it is no exit record: Unknown is the
// reason why there can be none. With Void set the command was never started, and Void is
// the reason.
type exitBlock struct {
	Exit       int    `json:"exit"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	Cancelled  bool   `json:"cancelled,omitempty"`
	StartError string `json:"start_error,omitempty"`
	// Starved is set if StartError is a limit that was reached.
	Starved bool  `json:"starved,omitempty"`
	EndedUS int64 `json:"ended_us"`
	Out     int64 `json:"out"`
	Err     int64 `json:"err"`
	// Lost says how much of the output is missing, and why.
	Lost string     `json:"lost,omitempty"`
	Left []leftover `json:"left,omitempty"`
	// More is the number of leftovers that did not fit into Left.
	More    int    `json:"more,omitempty"`
	Unknown string `json:"unknown,omitempty"`
	Void    string `json:"void,omitempty"`
}

// claim is the content of a claim file. Start and Exit are nil if they were not written.
// StartErr and ExitErr are set if they were written and are damaged.
type claim struct {
	Path     string
	Header   header
	Start    *startBlock
	Exit     *exitBlock
	StartErr error
	ExitErr  error
}

// stem returns the part of the file names that stands for key.
func stem(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])[:40]
}

func claimPath(dir, key string) string { return filepath.Join(dir, stem(key)+claimSuffix) }

// encodeBlock makes a block of size bytes: length, digest, JSON, zeros. The digest covers
// the block's name and the key, so no block can replace another.
func encodeBlock(name, key string, size int, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s block: %w", name, err)
	}
	if blockHead+len(body) > size {
		return nil, fmt.Errorf("encode %s block: %d bytes do not fit in %d", name, len(body), size-blockHead)
	}
	sum := blockSum(name, key, body)
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b, uint32(len(body)))
	copy(b[4:], sum[:])
	copy(b[blockHead:], body)
	return b, nil
}

func blockSum(name, key string, body []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "acode-%s\x00%s\x00%s", name, key, body))
}

var errBlock = errors.New("block is damaged")

// decodeBlock reads a block into v and reports whether it was written at all.
func decodeBlock(name, key string, b []byte, v any) (bool, error) {
	if len(bytes.TrimLeft(b, "\x00")) == 0 {
		return false, nil
	}
	body, err := blockBody(b)
	if err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	if sum := blockSum(name, key, body); !bytes.Equal(sum[:], b[4:blockHead]) {
		return true, fmt.Errorf("%s: %w", name, errBlock)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return true, fmt.Errorf("%s: %w", name, errBlock)
	}
	return true, nil
}

func blockBody(b []byte) ([]byte, error) {
	n := binary.BigEndian.Uint32(b)
	if n > uint32(len(b)-blockHead) {
		return nil, errBlock
	}
	return b[blockHead : blockHead+int(n)], nil
}

func corrupt(path string, cause error) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "the record of a command is damaged; nothing was changed", Place: path,
		Next: session.Then("check by hand what the command has done, keep the file for an analysis, then give the session up", session.MoveCancel, sessionOf(path)), Cause: cause}
}

// sessionOf returns the session whose directory holds the file. A hint names the session
// because the default session at the reader's prompt may be another one.
func sessionOf(path string) string { return filepath.Base(filepath.Dir(path)) }

// ErrHeld goes with ErrCorrupt if the command of a damaged claim, or its supervisor,
// still runs.
var ErrHeld = errors.New("a process holds it, so the command or its supervisor still runs")

// orHeld adds ErrHeld to err, an error of the damaged claim in f, if a process holds the
// claim.
func orHeld(f *os.File, err error) error {
	var e *session.Error
	if !errors.As(err, &e) || e.Code != session.ErrCorrupt {
		return err
	}
	if free, lerr := lockFree(f); lerr == nil && !free {
		e.Cause = fmt.Errorf("%w; %w", e.Cause, ErrHeld)
		e.Next = session.Then("find the process that holds the file (fuser shows it), wait for its end or end it, then give the session up", session.MoveCancel, sessionOf(f.Name()))
	}
	return err
}

// unread returns the error for a claim that could not be read. It is damage if another
// kind of file is in its place, or if its end is missing. Other failures, such as a lack
// of permission or of descriptors, say nothing about the claim.
func unread(path string, cause error) error {
	for _, damage := range []error{unix.ELOOP, unix.ENXIO, unix.ENOTDIR, io.EOF} {
		if errors.Is(cause, damage) {
			return corrupt(path, cause)
		}
	}
	next := "check the disk that holds acode's state, then resume; what was acknowledged is kept"
	if starved(cause) {
		next = "give acode more open files (ulimit -n) or memory, then resume"
	}
	return &session.Error{Code: session.ErrStoreIO, Message: "the record of a command cannot be read; nothing was changed", Place: path, Cause: cause, Retryable: true, Next: session.Words(next)}
}

// starved reports whether this process could not look because it lacks descriptors or
// memory: such an err says nothing about the object.
func starved(err error) bool { return shortage(err) != nil }

// shortage returns the limit of descriptors or memory behind err, as a unix.Errno, or
// nil.
func shortage(err error) error {
	for _, no := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if errors.Is(err, no) {
			return no
		}
	}
	return nil
}

// openClaim opens the claim of key for reading and probing. It returns fs.ErrNotExist if
// there is none.
func openClaim(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, unread(path, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != claimBytes {
		_ = f.Close()
		return nil, corrupt(path, errors.New("it is no regular file of the size that claims have"))
	}
	return f, nil
}

// readClaim parses an open claim. It returns ErrCorrupt for a damaged header, and
// ErrNewer for a claim of a newer acode.
func readClaim(f *os.File) (claim, error) {
	b := make([]byte, claimBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return claim{}, unread(f.Name(), err)
	}
	c, err := parseClaim(b)
	c.Path = f.Name()
	switch {
	case err != nil:
		return c, corrupt(c.Path, err)
	case stem(c.Header.Key)+claimSuffix != filepath.Base(c.Path):
		return c, corrupt(c.Path, errors.New("it belongs to another key"))
	case c.Header.V > claimVersion:
		return c, &session.Error{Code: session.ErrNewer, Message: fmt.Sprintf("a command's record has format %d; this acode knows %d", c.Header.V, claimVersion),
			Place: c.Path, Next: session.Words("use the newer acode")}
	}
	return c, nil
}

// parseClaim reads the blocks of a claim.
func parseClaim(b []byte) (claim, error) {
	var c claim
	if len(b) != claimBytes {
		return c, errBlock
	}
	ok, err := decodeBlock("header", "", b[headerAt:startAt], &c.Header)
	if err == nil && !ok {
		err = fmt.Errorf("header: %w", errBlock)
	}
	if err != nil {
		return c, err
	}
	var start startBlock
	if ok, err := decodeBlock("start", c.Header.Key, b[startAt:exitAt], &start); err != nil {
		c.StartErr = err
	} else if ok {
		c.Start = &start
	}
	var exit exitBlock
	if ok, err := decodeBlock("exit", c.Header.Key, b[exitAt:], &exit); err != nil {
		c.ExitErr = err
	} else if ok {
		c.Exit = &exit
	}
	if c.Header.State == stateVoid {
		c.Exit = &exitBlock{Exit: -1, Cancelled: true, EndedUS: c.Header.AtUS}
	}
	return c, nil
}

// errClaimed is the error if another process claimed the key first.
var errClaimed = errors.New("key is claimed")

// claimFiles are the two open files of a claim. The supervisor writes to w. The lock is
// on a read-only file, which the command inherits, so the command cannot write to the
// claim.
type claimFiles struct {
	w    *os.File
	lock *os.File
}

// close gives up the lock, also for the processes that inherited it.
func (c claimFiles) close() {
	// closing alone would leave the lock to descendants
	_ = unix.Flock(int(c.lock.Fd()), unix.LOCK_UN)
	_ = c.lock.Close()
	// it was synced before, or the failure was handled there
	_ = c.w.Close()
}

// writeClaim makes the claim of h durable under its name, or returns errClaimed. It takes
// the lock before the name exists: a claim is never seen unlocked before its command is
// over. If the directory cannot be synced, writeClaim returns the files with the error:
// the claim may or may not exist after a power cut.
func writeClaim(dir, prefix string, h header, hook func(string)) (claimFiles, error) {
	block, err := encodeBlock("header", "", startAt, h)
	if err != nil {
		return claimFiles{}, &session.Error{Code: session.ErrCommand, Message: "the key of the command is too long to be claimed; nothing was started", Cause: err}
	}
	w, err := os.CreateTemp(dir, prefix+"*.tmp")
	if err != nil {
		return claimFiles{}, storeError("create the claim", err)
	}
	files := claimFiles{w: w}
	if files.lock, err = fillClaim(w, append(block, make([]byte, claimBytes-len(block))...)); err != nil {
		// the content is not needed
		_ = w.Close()
		_ = os.Remove(w.Name())
		return claimFiles{}, storeError("write the claim", err)
	}
	hook("claim-written")
	if err := renameNew(w.Name(), claimPath(dir, h.Key)); err != nil {
		files.close()
		// the next supervisor would remove it otherwise
		_ = os.Remove(w.Name())
		if errors.Is(err, fs.ErrExist) {
			return claimFiles{}, errClaimed
		}
		return claimFiles{}, storeError("publish the claim", err)
	}
	hook("claim-named")
	if err := syncDir(dir); err != nil {
		return files, storeError("sync the claim's directory", err)
	}
	return files, nil
}

func fillClaim(w *os.File, b []byte) (*os.File, error) {
	if _, err := w.WriteAt(b, 0); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(w.Name(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		// the lock was not taken
		_ = lock.Close()
		return nil, err
	}
	if err := w.Sync(); err != nil {
		// closing gives up the lock
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// storeError returns a coded error for a failure before a command is started.
func storeError(what string, err error) error {
	return diskError("could not "+what+"; the command was not started", err)
}

// diskError returns a coded error for a failure of the claims' directory.
func diskError(message string, err error) error {
	e := &session.Error{Code: session.DiskCode(err, session.ErrStoreIO), Message: message, Cause: err, Retryable: true,
		Next: session.Words("check the disk that holds acode's state, then resume; what was acknowledged is kept")}
	if e.Code == session.ErrDiskFull {
		e.Next = session.Words("make room on the disk that holds acode's state, then resume; what was acknowledged is kept")
	}
	return e
}

// writeExit writes the exit block and makes it durable. It counts the leftovers that do
// not fit and cuts long texts, so that the outcome itself always fits.
func writeExit(w *os.File, key string, e exitBlock) error {
	const maxText = 400
	for _, text := range []*string{&e.StartError, &e.Lost, &e.Unknown, &e.Void} {
		*text = cutText(*text, maxText)
	}
	all := e.Left
	encode := func(without int) ([]byte, error) {
		e.Left, e.More = all[:len(all)-without], without
		return encodeBlock("exit", key, claimBytes-exitAt, e)
	}
	// there may be thousands of leftovers, and nothing is recorded yet
	without := sort.Search(len(all), func(n int) bool {
		_, err := encode(n)
		return err == nil
	})
	block, err := encode(without)
	if err != nil {
		return err
	}
	if _, err := w.WriteAt(block, exitAt); err != nil {
		return fmt.Errorf("write exit record: %w", err)
	}
	if err := datasync(w); err != nil {
		return fmt.Errorf("sync exit record: %w", err)
	}
	return nil
}

func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:n]), nil)) + "…"
}

func writeStart(w *os.File, key string, b startBlock) error {
	block, err := encodeBlock("start", key, exitAt-startAt, b)
	if err != nil {
		return err
	}
	if _, err := w.WriteAt(block, startAt); err != nil {
		return fmt.Errorf("write start block: %w", err)
	}
	return nil
}

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// DefaultMaxOutput is how many bytes of what a command writes are kept: half from the
// beginning, half from the end.
const DefaultMaxOutput = 16 << 20

// leastBlock is what the blocks of a file have at least.
const leastBlock = 4096

// outputs are what keeps what a command writes: one sink for both streams, so that their
// order is kept, or one for each where the request keeps them apart.
type outputs struct {
	sinks []*sink
	// of each
	max int64
}

// The names of what keeps an output, after the stem of its key. The second stands where
// the standard error is kept apart.
const (
	outSuffix = ".out"
	errSuffix = ".err"
)

func outputPaths(dir, key string, split bool) []string {
	paths := []string{filepath.Join(dir, stem(key)+outSuffix)}
	if split {
		paths = append(paths, filepath.Join(dir, stem(key)+errSuffix))
	}
	return paths
}

// openOutputs opens what keeps the output of key without truncating: should somebody else
// have claimed the key, it is his.
func openOutputs(dir, key string, split bool, maxBytes int64) (outputs, error) {
	paths := outputPaths(dir, key, split)
	o := outputs{max: maxBytes / int64(len(paths))}
	for _, path := range paths {
		s, err := openSink(path)
		if err != nil {
			o.close()
			return outputs{}, storeError("open the command's output file", err)
		}
		o.sinks = append(o.sinks, s)
	}
	return o, nil
}

func openOutput(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ours(f, 0); err != nil {
		// nothing in it is ours
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ours refuses a file of another type, that somebody else could read or that has another
// name.
func ours(f *os.File, kind fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != kind || st.Nlink != 1 || int(st.Uid) != os.Geteuid() || info.Mode().Perm() != 0o600 {
		return errors.New("it is not ours alone, with mode 0600 and one name")
	}
	return nil
}

// ends gives the descriptors that the command gets as its standard output and its
// standard error.
func (o outputs) ends() (stdout, stderr uintptr) {
	return uintptr(o.sinks[0].end), uintptr(o.sinks[len(o.sinks)-1].end)
}

// begin carries what the command writes, which has just been started, until drain.
func (o outputs) begin() {
	for _, s := range o.sinks {
		s.begin()
	}
}

// drain keeps what the command has written by now, and says what could not be kept.
func (o outputs) drain() (lost string) {
	for _, s := range o.sinks {
		if n, cause := s.drain(); cause != nil {
			lost = fmt.Sprintf("%d bytes that the command wrote could not be kept: %v", n, cause)
		}
	}
	return lost
}

func (o outputs) close() {
	for _, s := range o.sinks {
		s.close()
	}
}

// cap gives back the middle of what is longer than max. A failure costs room, nothing
// else.
func (o outputs) cap() {
	for _, s := range o.sinks {
		var st unix.Stat_t
		if unix.Fstat(int(s.file.Fd()), &st) != nil || st.Blocks*512 <= o.max || st.Size <= o.max {
			continue
		}
		if from, to := middle(st.Size, o.max, int64(st.Blksize)); from < to {
			_ = punch(s.file, from, to)
		}
	}
}

// middle gives what of a file of size bytes is given back, in whole blocks: of one that
// is given back in part the rest stays, as data, and reads as zeros that nobody wrote.
// Blocks may have 64 KiB, most of all where pages do.
func middle(size, limit, block int64) (from, to int64) {
	block = max(block, leastBlock)
	from = max(limit/2/block, 1) * block
	return from, (size - from) / block * block
}

// lengths gives the sizes of what was kept, provided that its names still lead there.
func (o outputs) lengths() (sizes [2]int64, err error) {
	for i, s := range o.sinks {
		if sizes[i], err = namedSize(s.file, s.path); err != nil {
			return sizes, err
		}
	}
	return sizes, nil
}

func namedSize(f *os.File, path string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	// takes no descriptor: there may be no more, and the command has ended
	named, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, named) {
		return 0, fmt.Errorf("%s was replaced", path)
	}
	return info.Size(), nil
}

// openStream opens one output file for reading: what is there now, with a note where the
// middle was cut out. Not more than limit bytes of the file are looked at, and fewer are
// ErrCorrupt; a negative limit takes what there is. A file that is there and cannot be
// reached is not lost.
func openStream(path string, limit int64) (*stream, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	for _, gone := range []error{fs.ErrNotExist, unix.ELOOP, unix.ENXIO, unix.ENOTDIR} {
		if errors.Is(err, gone) {
			return nil, tornOutput(path, "it is missing", err)
		}
	}
	if err != nil {
		return nil, unread(path, err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() < limit {
		// only read
		_ = f.Close()
		return nil, tornOutput(path, "it is torn", err)
	}
	size := info.Size()
	if limit >= 0 {
		size = limit
	}
	return &stream{gapped: withoutHoles(f, 0, size), Closer: f}, nil
}

type stream struct {
	gapped
	io.Closer
}

// gapped is redact.Gapped.
type gapped struct {
	io.Reader
	size int64
	gaps []redact.Gap
}

// Gaps implements redact.Gapped.
func (g gapped) Gaps() []redact.Gap { return g.gaps }

// missing puts a note in the place of a piece that is missing.
func (g gapped) missing(format string, args ...any) gapped {
	note := fmt.Sprintf("\n[acode: "+format+"]\n", args...)
	gap := redact.Gap{At: g.size, Size: int64(len(note))}
	return gapped{io.MultiReader(g.Reader, strings.NewReader(note)), gap.At + gap.Size, append(g.gaps, gap)}
}

func tornOutput(path, what string, cause error) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "an output file of the command cannot be used: " + what, Place: path, Cause: cause,
		Next: session.Words("decide by what the command was to do; its output cannot be had again")}
}

// withoutHoles reads what was written of a file between two places, with a note in the
// place of each hole: that where the middle was cut out, and where the command writes to
// the file itself those that it left, which may be larger than any disk.
func withoutHoles(f *os.File, at, size int64) (g gapped) {
	g.Reader = strings.NewReader("")
	for at < size {
		hole := seek(f, at, seekHole, size)
		data := seek(f, hole, seekData, size)
		// no file system says both, and none is asked for ever
		if data == at {
			hole, data = size, size
		}
		if hole > at {
			g.Reader, g.size = io.MultiReader(g.Reader, io.NewSectionReader(f, at, hole-at)), g.size+hole-at
		}
		if data > hole {
			g = g.missing("%d bytes cut out here", data-hole)
		}
		at = data
	}
	return g
}

// seek gives where the next hole, or data, of f begins; size where there is none.
func seek(f *os.File, from int64, whence int, size int64) int64 {
	at, err := unix.Seek(int(f.Fd()), from, whence)
	if err != nil {
		return size
	}
	return min(at, size)
}

// openOutputsOf opens both outputs of key for reading; the second is empty where both
// streams share the first.
func openOutputsOf(dir, key string) (stdout, stderr io.ReadCloser, err error) {
	_, c, err := look(dir, key)
	if err != nil {
		return nil, nil, err
	}
	out, errs, err := c.outputs(dir, key)
	if err != nil {
		return nil, nil, err
	}
	if c.Exit != nil && c.Exit.Lost != "" {
		out.gapped = out.missing("%s", c.Exit.Lost)
	}
	return out, errs, nil
}

// outputs opens what was kept for the claim c of key.
func (c claim) outputs(dir, key string) (stdout, stderr *stream, err error) {
	rebooted, err := c.rebooted()
	if err != nil {
		return nil, nil, unread(c.Path, err)
	}
	none := func() *stream {
		r := strings.NewReader("")
		return &stream{gapped: gapped{Reader: r}, Closer: io.NopCloser(r)}
	}
	paths := outputPaths(dir, key, c.Header.Split)
	sizes := [2]int64{-1, -1}
	switch {
	case c.Header.State == stateVoid:
		return none(), none(), nil
	case c.Exit != nil && c.Exit.Unknown == "":
		sizes = [2]int64{c.Exit.Out, c.Exit.Err}
	case rebooted:
		// what was written was never made durable, and nothing tells how much is missing
		return nil, nil, tornOutput(paths[0], "the machine restarted before it was durable", nil)
	}
	opened := []*stream{none(), none()}
	for i, path := range paths {
		r, err := openStream(path, sizes[i])
		if err != nil {
			// only read
			_ = opened[0].Close()
			return nil, nil, err
		}
		opened[i] = r
	}
	return opened[0], opened[1], nil
}

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

// DefaultMaxOutput is the number of bytes kept of a command's output: half from the
// beginning, half from the end.
const DefaultMaxOutput = 16 << 20

// leastBlock is the least size of a file system's blocks.
const leastBlock = 4096

// outputs keep the output of a command: one sink for both streams, so that their order is
// kept, or one for each stream if the request keeps them apart. max is the limit of each
// sink.
type outputs struct {
	sinks []*sink
	max   int64
}

// The suffixes of output files, after the stem of the key. There is a second file if
// standard error is kept apart.
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

// openOutputs opens the output files of key without truncating them: another process may
// have claimed the key, and then they are its files.
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
		// nothing was written
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ours returns an error for a file of another type, a file that other users can read, and
// a file with a second name.
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

// ends returns the descriptors for the command's standard output and standard error.
func (o outputs) ends() (stdout, stderr uintptr) {
	return uintptr(o.sinks[0].end), uintptr(o.sinks[len(o.sinks)-1].end)
}

// begin moves the output of the command, which has just been started, until drain.
func (o outputs) begin() {
	for _, s := range o.sinks {
		s.begin()
	}
}

// drain keeps the output so far, and says how many bytes could not be kept.
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

// cap frees the middle of files that are longer than max. A failure only costs space.
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

// middle returns the part to free of a file of size bytes, in whole blocks. A block that
// is freed in part stays in the file as data, and its zeros would look like output.
// Blocks may have 64 KiB, mainly on machines whose pages have that size.
func middle(size, limit, block int64) (from, to int64) {
	block = max(block, leastBlock)
	from = max(limit/2/block, 1) * block
	return from, (size - from) / block * block
}

// lengths returns the sizes of the files, provided that their names still lead to them.
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
	// Lstat takes no descriptor: there may be none left, and the command has ended
	named, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, named) {
		return 0, fmt.Errorf("%s was replaced", path)
	}
	return info.Size(), nil
}

// openStream opens one output file for reading: its content now, with a note in place of
// a freed middle. It reads at most limit bytes, and a shorter file is ErrCorrupt. A
// negative limit reads the whole file. A file that exists and cannot be reached is not
// reported as lost.
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

// gapped implements redact.Gapped.
type gapped struct {
	io.Reader
	size int64
	gaps []redact.Gap
}

// Gaps implements redact.Gapped.
func (g gapped) Gaps() []redact.Gap { return g.gaps }

// missing adds a note in place of a missing piece.
func (g gapped) missing(format string, args ...any) gapped {
	note := fmt.Sprintf("\n[acode: "+format+"]\n", args...)
	gap := redact.Gap{At: g.size, Size: int64(len(note))}
	return gapped{io.MultiReader(g.Reader, strings.NewReader(note)), gap.At + gap.Size, append(g.gaps, gap)}
}

func tornOutput(path, what string, cause error) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "an output file of the command cannot be used: " + what, Place: path, Cause: cause,
		Next: session.Words("check by hand what the command has done; its output is lost")}
}

// withoutHoles reads a file from at to size, with a note in place of each hole. A hole is
// a freed middle. If the command writes to the file itself, it may leave holes too, which
// may be larger than any disk.
func withoutHoles(f *os.File, at, size int64) (g gapped) {
	g.Reader = strings.NewReader("")
	for at < size {
		hole := seek(f, at, seekHole, size)
		data := seek(f, hole, seekData, size)
		// no file system should say this; the check prevents an endless loop
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

// seek returns where the next hole, or data, of f begins, or size if there is none.
func seek(f *os.File, from int64, whence int, size int64) int64 {
	at, err := unix.Seek(int(f.Fd()), from, whence)
	if err != nil {
		return size
	}
	return min(at, size)
}

// openOutputsOf opens both outputs of key for reading. The second is empty if both
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

// outputs opens the outputs of the claim c of key.
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
		// the output was never made durable, and nothing says how much is missing
		return nil, nil, tornOutput(paths[0], "the machine restarted before it was durable", nil)
	}
	opened := []*stream{none(), none()}
	for i, path := range paths {
		r, err := openStream(path, sizes[i])
		if err != nil {
			_ = opened[0].Close()
			return nil, nil, err
		}
		opened[i] = r
	}
	return opened[0], opened[1], nil
}

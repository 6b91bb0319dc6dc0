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

	"github.com/acode-dev/acode/session"
)

// DefaultMaxOutput is how many bytes of each stream are kept: half from its beginning,
// half from its end.
const DefaultMaxOutput = 8 << 20

// leastBlock is what the blocks of a file have at least.
const leastBlock = 4096

// outputs are the files that a command writes to. It holds them itself.
type outputs struct {
	out, err         *os.File
	outPath, errPath string
	max              int64
}

// openOutputs opens both files of key without truncating: should somebody else have
// claimed the key, they are his.
func openOutputs(dir, key string, maxBytes int64) (outputs, error) {
	o := outputs{outPath: filepath.Join(dir, stem(key)+".out"), errPath: filepath.Join(dir, stem(key)+".err"), max: maxBytes}
	var err error
	if o.out, err = openOutput(o.outPath); err != nil {
		return o, storeError("open the command's output file", err)
	}
	if o.err, err = openOutput(o.errPath); err != nil {
		_ = o.out.Close() // nothing in it yet
		return o, storeError("open the command's output file", err)
	}
	return o, nil
}

func openOutput(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ours(f); err != nil {
		_ = f.Close() // nothing in it is ours
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ours refuses a file that somebody else could read or that has another name.
func ours(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || st.Nlink != 1 || int(st.Uid) != os.Geteuid() || info.Mode().Perm() != 0o600 {
		return errors.New("it is no regular file of ours with mode 0600 and one name")
	}
	return nil
}

func (o outputs) close() {
	_ = o.out.Close() // the command's own descriptors carry what it writes
	_ = o.err.Close()
}

// cap gives back the middle of what is longer than max. A failure costs room, nothing
// else.
func (o outputs) cap() {
	for _, f := range []*os.File{o.out, o.err} {
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) != nil || st.Blocks*512 <= o.max || st.Size <= o.max {
			continue
		}
		if from, to := middle(st.Size, o.max, int64(st.Blksize)); from < to {
			_ = punch(f, from, to)
		}
	}
}

// middle gives what of a file of size bytes is given back, in whole blocks: of one that is given back
// in part the rest stays, as data, and reads as zeros that nobody wrote. Blocks may have 64 KiB, most of
// all where pages do.
func middle(size, limit, block int64) (from, to int64) {
	block = max(block, leastBlock)
	from = max(limit/2/block, 1) * block
	return from, (size - from) / block * block
}

// lengths gives the size of both files, provided that their names still lead to them.
func (o outputs) lengths() (outLen, errLen int64, err error) {
	if outLen, err = namedSize(o.out, o.outPath); err != nil {
		return 0, 0, err
	}
	errLen, err = namedSize(o.err, o.errPath)
	return outLen, errLen, err
}

func namedSize(f *os.File, path string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	named, err := os.Lstat(path) // takes no descriptor: there may be no more, and the command has ended
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
// ErrCorrupt; a negative limit takes what there is. A file that is there and cannot be reached is
// not lost.
func openStream(path string, limit int64) (io.ReadCloser, error) {
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
		_ = f.Close() // only read
		return nil, tornOutput(path, "it is torn", err)
	}
	size := info.Size()
	if limit >= 0 {
		size = limit
	}
	return &stream{Reader: withoutHoles(f, size), Closer: f}, nil
}

type stream struct {
	io.Reader
	io.Closer
}

func tornOutput(path, what string, cause error) error {
	return &session.Error{Code: session.ErrCorrupt, Message: "an output file of the command cannot be used: " + what, Place: path, Cause: cause,
		Next: session.Words("decide by what the command was to do; its output cannot be had again")}
}

// withoutHoles reads what was written of a file, with a note in the place of each hole: that where the
// middle was cut out, and those that the command left itself, which may be larger than any disk.
func withoutHoles(f *os.File, size int64) io.Reader {
	var parts []io.Reader
	for at := int64(0); at < size; {
		hole := seek(f, at, seekHole, size)
		data := seek(f, hole, seekData, size)
		if data == at { // no file system says both, and none is asked for ever
			hole, data = size, size
		}
		if hole > at {
			parts = append(parts, io.NewSectionReader(f, at, hole-at))
		}
		if data > hole {
			parts = append(parts, strings.NewReader(fmt.Sprintf("\n[acode: %d bytes cut out here]\n", data-hole)))
		}
		at = data
	}
	return io.MultiReader(parts...)
}

// seek gives where the next hole, or data, of f begins; size where there is none.
func seek(f *os.File, from int64, whence int, size int64) int64 {
	at, err := unix.Seek(int(f.Fd()), from, whence)
	if err != nil {
		return size
	}
	return min(at, size)
}

// openOutputsOf opens both outputs of key for reading.
func openOutputsOf(dir, key string) (stdout, stderr io.ReadCloser, err error) {
	_, c, err := look(dir, key)
	if err != nil {
		return nil, nil, err
	}
	rebooted, err := c.rebooted()
	if err != nil {
		return nil, nil, unread(c.Path, err)
	}
	outLen, errLen := int64(-1), int64(-1)
	switch {
	case c.Header.State == stateVoid:
		return io.NopCloser(strings.NewReader("")), io.NopCloser(strings.NewReader("")), nil
	case c.Exit != nil && c.Exit.Unknown == "":
		outLen, errLen = c.Exit.Out, c.Exit.Err
	case rebooted: // what was written was never made durable, and nothing tells how much is missing
		return nil, nil, tornOutput(filepath.Join(dir, stem(key)+".out"), "the machine restarted before it was durable", nil)
	}
	if stdout, err = openStream(filepath.Join(dir, stem(key)+".out"), outLen); err != nil {
		return nil, nil, err
	}
	if stderr, err = openStream(filepath.Join(dir, stem(key)+".err"), errLen); err != nil {
		_ = stdout.Close() // only read
		return nil, nil, err
	}
	return stdout, stderr, nil
}

package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"math"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/session"
)

// The file system may give two writes the same time if they are closer than this. A
// tick of the kernel's coarse clock is at most 10 ms, but ext4 with small inodes keeps
// whole seconds.
const (
	granularity = 20 * time.Millisecond
	coarsest    = time.Second + granularity
)

const permissionBits = 0o7777

// stat holds the fields that tell whether a path is still the same file.
type stat struct {
	dev, ino, links uint64
	// mode includes the type bits.
	mode     uint32
	uid, gid uint32
	size     int64
	// mtime and ctime are in nanoseconds.
	mtime, ctime int64
}

func fromUnix(st *unix.Stat_t) stat {
	// Some file systems give a file the inode 0, which means "none" here.
	return stat{
		dev: uint64(st.Dev), ino: max(st.Ino, 1), links: uint64(st.Nlink), mode: uint32(st.Mode), uid: st.Uid, gid: st.Gid, size: st.Size,
		mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}
}

func (s stat) regular() bool   { return s.mode&unix.S_IFMT == unix.S_IFREG }
func (s stat) directory() bool { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s stat) symlink() bool   { return s.mode&unix.S_IFMT == unix.S_IFLNK }
func (s stat) perm() uint32    { return s.mode & permissionBits }

func (s stat) sameFile(o stat) bool { return s.dev == o.dev && s.ino == o.ino }

// racy reports whether a change right after now could leave the same times.
func (s stat) racy(now time.Time) bool {
	past := granularity
	// No process can set the ctime, so the file system keeps no fraction of a second.
	if s.ctime%int64(time.Second) == 0 {
		past = coarsest
	}
	edge := now.Add(-past).UnixNano()
	return s.ctime > edge || s.mtime > edge && s.mtime < now.Add(granularity).UnixNano()
}

func (s stat) matches(f session.FileState) bool {
	return s.size == f.Size && s.mtime == f.MTimeNS && s.ctime == f.CTimeNS && s.ino == f.Inode && s.perm() == f.Mode
}

// state describes a file with this hash. Its stat was taken at now.
func (s stat) state(name, hash string, now time.Time) session.FileState {
	return session.FileState{Path: name, Hash: hash, Size: s.size, Mode: s.perm(),
		MTimeNS: s.mtime, CTimeNS: s.ctime, Inode: s.ino, Racy: s.racy(now)}
}

// lends reports whether s is set-user-ID or set-group-ID of another user or group than
// these. A new file with its content and mode would run as uid and gid instead.
func (s stat) lends(uid, gid uint32) bool {
	return s.mode&unix.S_ISUID != 0 && s.uid != uid || s.mode&unix.S_ISGID != 0 && s.gid != gid
}

// refusal returns why acode does not touch a file like s, or "" if it does. links is
// the number of names that the file may have.
func (s stat) refusal(links uint64) string {
	switch {
	case s.symlink():
		return "the path is a symbolic link"
	case s.directory():
		return "the path is a directory"
	case !s.regular():
		return "the path is not a regular file"
	case s.links > links:
		return "the file has further names (hard links)"
	}
	return ""
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func fstat(f *os.File) (stat, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) })
	return fromUnix(&st), err
}

// folder is an open directory below the root. Files are named by one component relative
// to it, so that no later rename or symbolic link can lead elsewhere (W1).
type folder struct {
	// slash-separated, "." for the root
	name string
	f    *os.File
	st   stat
}

func (r *Root) folder(name string) (*folder, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	st, err := fstat(f)
	if err != nil {
		// nothing was written through it
		_ = f.Close()
		return nil, err
	}
	return &folder{name: name, f: f, st: st}, nil
}

func (d *folder) close() {
	if d != nil {
		// closing a read-only descriptor loses nothing
		_ = d.f.Close()
	}
}

func (d *folder) fd() int { return int(d.f.Fd()) }

// lstat examines base without following a link.
func (d *folder) lstat(base string) (stat, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(d.fd(), base, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return fromUnix(&st), err
}

// lstat examines a path without following its last component.
func (r *Root) lstat(name string) (stat, error) {
	d, err := r.folder(path.Dir(name))
	if err != nil {
		return stat{}, err
	}
	defer d.close()
	return d.lstat(path.Base(name))
}

// current reports whether the folder's name still leads to it.
func (r *Root) current(d *folder) bool {
	if d.name == "." {
		return true
	}
	now, err := r.folder(d.name)
	if err != nil {
		return false
	}
	defer now.close()
	return now.st.sameFile(d.st)
}

// open opens base for reading if it is a regular file with at most this many links. It
// does not even open a device, because that can have effects.
func (d *folder) open(base string, links uint64) (*os.File, stat, error) {
	name := path.Join(d.name, base)
	st, err := d.lstat(base)
	if err != nil {
		return nil, stat{}, err
	}
	if why := st.refusal(links); why != "" {
		return nil, st, escape(name, why)
	}
	fd := -1
	err = retry(func() (err error) {
		fd, err = unix.Openat(d.fd(), base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, stat{}, err
	}
	return checked(os.NewFile(uintptr(fd), name), name, links)
}

// checked examines the file that was really opened, and closes a file that it refuses.
func checked(f *os.File, name string, links uint64) (*os.File, stat, error) {
	st, err := fstat(f)
	if err == nil {
		if why := st.refusal(links); why != "" {
			err = escape(name, why)
		}
	}
	if err != nil {
		// nothing was written through it
		_ = f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// follow opens name for reading. It follows symbolic links that stay below the root.
func (r *Root) follow(name string) (*os.File, stat, error) {
	info, err := r.root.Stat(name)
	if err != nil {
		return nil, stat{}, err
	}
	if info.IsDir() {
		return nil, stat{}, escape(name, "the path is a directory")
	}
	if !info.Mode().IsRegular() {
		return nil, stat{}, escape(name, "the path is not a regular file")
	}
	f, err := r.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, stat{}, err
	}
	return checked(f, name, 1)
}

// hashTries is how many times a file is read if it changes meanwhile.
const hashTries = 3

// hash reads f from its start and returns its hash with the matching stat.
func (r *Root) hash(ctx context.Context, f *os.File, name string) (session.FileState, stat, error) {
	for range hashTries {
		before, err := fstat(f)
		if err != nil {
			return session.FileState{}, before, err
		}
		now := r.now()
		sum := sha256.New()
		if _, err := io.CopyBuffer(sum, &section{ctx: ctx, r: io.NewSectionReader(f, 0, math.MaxInt64)}, make([]byte, min(max(before.size+1, 512), 32<<10))); err != nil {
			return session.FileState{}, before, err
		}
		after, err := fstat(f)
		if err != nil {
			return session.FileState{}, before, err
		}
		if before.size == after.size && before.mtime == after.mtime && before.ctime == after.ctime {
			return after.state(name, hex.EncodeToString(sum.Sum(nil)), now), after, nil
		}
	}
	return session.FileState{}, stat{}, fileChanged(name, "the file changes while it is read")
}

// section is a reader that ends with its context.
type section struct {
	ctx context.Context
	r   io.Reader
}

func (s *section) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, interruption{context.Cause(s.ctx)}
	}
	return s.r.Read(p)
}

// interruption is the end of a context with any cause. It says nothing about a file.
type interruption struct{ cause error }

func (i interruption) Error() string { return i.cause.Error() }
func (i interruption) Unwrap() error { return i.cause }

// verified passes bytes on. At their end it compares their hash with the wanted one.
type verified struct {
	r    io.Reader
	sum  hash.Hash
	want string
	name string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		return n, fileChanged(v.name, "the content no longer has the hash that was recorded")
	}
	return n, err
}

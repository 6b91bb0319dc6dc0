package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracee reads the memory, descriptors and paths of a stopped thread.
type tracee int

// read copies n bytes at addr. It returns fewer if an unreadable page follows.
func (t tracee) read(addr, n uint64) []byte {
	if addr == 0 || n == 0 {
		return nil
	}
	b := make([]byte, n)
	local := []unix.Iovec{{Base: &b[0], Len: n}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: int(n)}}
	got, err := unix.ProcessVMReadv(int(t), local, remote, 0)
	if err != nil {
		return nil
	}
	return b[:got]
}

// word reads one 64-bit number.
func (t tracee) word(addr uint64) uint64 {
	b := t.read(addr, 8)
	if len(b) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// text reads a string that ends with NUL. It reads page by page, because the next page
// may not exist.
func (t tracee) text(addr uint64) string {
	const page = 4096
	var s []byte
	for len(s) <= unix.PathMax {
		b := t.read(addr, page-addr%page)
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(s, b[:i]...))
		}
		if len(b) == 0 {
			break
		}
		s = append(s, b...)
		addr += uint64(len(b))
	}
	return string(s)
}

// vector reads the bytes of n iovecs.
func (t tracee) vector(addr, n uint64) []byte {
	var all []byte
	for i := range n {
		at := addr + i*uint64(unsafe.Sizeof(unix.Iovec{}))
		all = append(all, t.read(t.word(at), t.word(at+8))...)
	}
	return all
}

// argv reads an array of strings that ends with a nil pointer.
func (t tracee) argv(addr uint64) []byte {
	var words []string
	for ; len(words) < 4096; addr += 8 {
		p := t.word(addr)
		if p == 0 {
			break
		}
		words = append(words, t.text(p))
	}
	return []byte(strings.Join(words, "\x00"))
}

func (t tracee) proc(elem ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(int(t))}, elem...)...)
}

func (t tracee) fdLink(fd int) string { return t.proc("fd", strconv.Itoa(fd)) }

// file returns the path and state of an open file. ok is false if fd is not open.
func (t tracee) file(fd int) (path string, st unix.Stat_t, ok bool) {
	link := t.fdLink(fd)
	path, err := os.Readlink(link)
	if err != nil || unix.Stat(link, &st) != nil {
		return "", st, false
	}
	if st.Nlink == 0 {
		path = strings.TrimSuffix(path, " (deleted)")
	}
	return path, st, true
}

// position returns the offset and the flags of an open file.
func (t tracee) position(fd int) (pos int64, flags int) {
	b, err := os.ReadFile(t.proc("fdinfo", strconv.Itoa(fd)))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); name {
		case "pos":
			// The kernel wrote the number.
			pos, _ = strconv.ParseInt(value, 10, 64)
		case "flags":
			f, _ := strconv.ParseInt(value, 8, 64)
			flags = int(f)
		}
	}
	return pos, flags
}

// resolve makes the path of a call absolute and follows every symbolic link before the
// last element. If follow is true, it follows the last one too if it exists.
func (t tracee) resolve(dir int, path string, follow bool) string {
	if !filepath.IsAbs(path) {
		link := t.proc("cwd")
		if dir != unix.AT_FDCWD {
			link = t.fdLink(dir)
		}
		base, err := os.Readlink(link)
		if err != nil {
			return path
		}
		path = base + "/" + path
	}
	path = strings.TrimRight(path, "/")
	if full, err := filepath.EvalSymlinks(path); err == nil && follow {
		return full
	}
	at, name := filepath.Split(path)
	if name == "." || name == ".." {
		at, name = path, ""
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	return filepath.Join(at, name)
}

// unixSocket returns the name of the unix socket behind a descriptor's link, or the link
// itself if the socket has no name. ok is false for other files.
func (t tracee) unixSocket(link string) (name string, ok bool) {
	inode, isSocket := strings.CutPrefix(link, "socket:[")
	if !isSocket {
		return "", false
	}
	inode = strings.TrimSuffix(inode, "]")
	b, err := os.ReadFile(t.proc("net", "unix"))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 7 || f[6] != inode {
			continue
		}
		if len(f) > 7 {
			return f[7], true
		}
		return link, true
	}
	return "", false
}

// argvNow returns the arguments of the program that the process currently runs.
func (t tracee) argvNow() []string {
	b, err := os.ReadFile(t.proc("cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// family returns the process of a thread and that process's parent. A process that is
// gone is 0.
func (t tracee) family() (tgid, ppid int) {
	b, err := os.ReadFile(t.proc("status"))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		switch {
		case err != nil:
		case name == "Tgid":
			tgid = n
		case name == "PPid":
			ppid = n
		}
	}
	return tgid, ppid
}

// written reads back the data that a call put into a file.
func (t tracee) written(fd int, off, n int64) ([]byte, error) {
	f, err := os.Open(t.fdLink(fd))
	if err != nil {
		return nil, fmt.Errorf("reopen copied file: %w", err)
	}
	defer f.Close()
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read copied file: %w", err)
	}
	return b[:got], nil
}

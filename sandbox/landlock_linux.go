package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// leastFilterABI is the version of Landlock that restricts truncation. Without a
	// private root the sandbox needs it.
	leastFilterABI = 3
	// scopeABI is the version that keeps signals and abstract sockets in the sandbox.
	scopeABI = 6
)

const (
	readAccess = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	makeAccess = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	writeAccess = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fileAccess  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | writeAccess
)

// landlockABI returns the version of Landlock of this kernel; below 1 there is none.
func landlockABI() int {
	n, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != 0 {
		return 0
	}
	return int(n)
}

// known returns the rights that version abi knows.
func known(abi int) uint64 {
	rights := uint64(readAccess | makeAccess | writeAccess)
	if abi < 2 {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	return rights
}

// restrict puts this thread into a Landlock domain. Besides the files, the domain keeps
// it from mounts and from the memory of other processes.
func (s stage) restrict() error {
	abi := landlockABI()
	rights := known(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rights}
	if abi >= scopeABI {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if abi < scopeABI {
		size = unsafe.Sizeof(attr.Handled_access_fs)
	}
	fd, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if no != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", no)
	}
	// the domain stays
	defer func() { _ = unix.Close(int(fd)) }()
	for _, rule := range s.rules() {
		if err := allow(int(fd), rule, rights); err != nil {
			return fmt.Errorf("allow %s by Landlock: %w", rule.path, err)
		}
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); no != 0 {
		return fmt.Errorf("enter the Landlock domain: %w", no)
	}
	return nil
}

// rule allows access to a file, or below a directory.
type rule struct {
	path   string
	rights uint64
}

func (s stage) rules() []rule {
	var out []rule
	ownAccess := uint64(readAccess | makeAccess | writeAccess)
	if s.ReadOnly {
		ownAccess = readAccess
	}
	for _, path := range s.own() {
		out = append(out, rule{path, ownAccess})
	}
	for _, path := range devices {
		out = append(out, rule{path, fileAccess})
	}
	if s.Mode == Namespaces {
		// only what the profile names exists there
		return append(out, rule{"/", readAccess}, rule{"/tmp", ownAccess}, rule{"/var/tmp", ownAccess},
			rule{"/dev/pts", ownAccess &^ makeAccess}, rule{"/dev/shm", readAccess | makeAccess | writeAccess})
	}
	for _, path := range append(s.Read, "/proc", "/sys") {
		out = append(out, rule{path, readAccess})
	}
	return out
}

// allow adds a rule. A path that does not exist needs none.
func allow(ruleset int, r rule, known uint64) error {
	fd, err := unix.Open(r.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rights := r.rights & known
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileAccess
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, no := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); no != 0 {
		return no
	}
	return nil
}

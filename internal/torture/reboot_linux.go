package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// rebootSwitch is the first argument of a harness that becomes another program in a
// simulated boot of the machine.
const rebootSwitch = "torture-reboot"

// bootIDPath is where the kernel reports the boot id.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// rebootMain turns the calling process into another program if its arguments say so. That
// program sees the boot id of a file, in its own mount namespace. Only root can do this.
func rebootMain() {
	if len(os.Args) < 4 || os.Args[1] != rebootSwitch {
		return
	}
	err := bootElsewhere(os.Args[2])
	if err == nil {
		err = syscall.Exec(os.Args[3], os.Args[3:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "reboot:", err)
	os.Exit(127)
}

// bootElsewhere moves the calling thread into a new mount namespace and mounts the file
// there. A mount in the machine's own namespace would show every program another boot, so
// bootElsewhere checks that the thread has left it.
func bootElsewhere(file string) error {
	// A namespace belongs to a thread.
	runtime.LockOSThread()
	const namespace = "/proc/thread-self/ns/mnt"
	from, err := os.Readlink(namespace)
	if err != nil {
		return err
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	now, err := os.Readlink(namespace)
	if err != nil {
		return err
	}
	if now == from {
		return errors.New("still in the mount namespace of the machine")
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount(file, bootIDPath, "", syscall.MS_BIND, "")
}

// otherBoot makes the file for rebootMain beside dir, for the nth boot from now. It
// returns "" without root.
func otherBoot(dir string, n int) (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	name := dir + ".boot-id"
	return name, os.WriteFile(name, fmt.Appendf(nil, "00000000-1111-4222-8333-%012d\n", n), 0o444)
}

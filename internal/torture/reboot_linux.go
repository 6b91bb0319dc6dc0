package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// rebootSwitch is the first argument of a harness that is to become another program which
// sees another boot of the machine.
const rebootSwitch = "torture-reboot"

// bootIDPath is where the kernel tells which boot this is.
const bootIDPath = "/proc/sys/kernel/random/boot_id"

// rebootMain turns the calling process into another program when its arguments say so: that
// one sees, in a mount namespace of its own, the boot id that a file holds. Only root can.
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

// bootElsewhere moves the calling thread into a new mount namespace and mounts the file there.
// A mount that reached the machine's own namespace would show every program another boot, so
// it makes sure that the thread has left it.
func bootElsewhere(file string) error {
	runtime.LockOSThread() // a namespace belongs to a thread
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

// otherBoot makes the file for rebootMain beside dir, of the nth boot from now; empty where only
// root could use it.
func otherBoot(dir string, n int) (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	name := dir + ".boot-id"
	return name, os.WriteFile(name, fmt.Appendf(nil, "00000000-1111-4222-8333-%012d\n", n), 0o444)
}

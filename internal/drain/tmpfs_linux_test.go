package main_test

import (
	"fmt"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of the given size in memory at dir until the test ends.
// It reports whether the machine allows that.
func smallDisk(t testing.TB, dir string, megabytes int) bool {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", megabytes)); err != nil {
		return false
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return true
}

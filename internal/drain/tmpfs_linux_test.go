package main_test

import (
	"fmt"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of so many MB in memory at dir, for as long as the test runs.
// It reports whether the machine allows that.
func smallDisk(t testing.TB, dir string, megabytes int) bool {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", megabytes)); err != nil {
		return false
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return true
}

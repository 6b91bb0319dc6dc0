//go:build !linux

package main_test

import "testing"

// smallDisk returns false, because this system has no mounts in memory.
func smallDisk(testing.TB, string, int) bool { return false }

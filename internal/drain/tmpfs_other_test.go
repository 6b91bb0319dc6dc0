//go:build !linux

package main_test

import "testing"

// smallDisk needs mounts in memory.
func smallDisk(testing.TB, string, int) bool { return false }

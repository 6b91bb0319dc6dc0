//go:build !linux

package local_test

// launch does nothing, because there is no tracer for this system.
func launch() {}

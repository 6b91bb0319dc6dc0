//go:build !linux

package local_test

// launch has no tracer here.
func launch() {}

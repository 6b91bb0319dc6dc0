//go:build !linux

package main_test

// launcher does nothing: programs are traced on Linux only.
func launcher() {}

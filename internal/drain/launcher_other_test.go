//go:build !linux

package main_test

// launcher does nothing, because programs are traced on Linux only.
func launcher() {}

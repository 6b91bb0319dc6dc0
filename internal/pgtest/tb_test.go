package pgtest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder is a test whose failure does not fail the test that uses it.
type recorder struct {
	testing.TB
	said     string
	cleanups []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) { r.said += fmt.Sprintf(f, args...) }
func (r *recorder) Fatal(args ...any)            { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, args ...any) {
	r.Errorf(f, args...)
	runtime.Goexit()
}

// try runs a part of the test to its end and returns its output.
func (r *recorder) try(part func()) string {
	r.said = ""
	done := make(chan struct{})
	go func() {
		defer close(done)
		part()
	}()
	<-done
	return r.said
}

// record runs a test to its end, cleanups included, and returns its output.
func record(test func(tb testing.TB)) string {
	r := &recorder{}
	said := r.try(func() { test(r) })
	return said + r.try(func() {
		for i := len(r.cleanups) - 1; i >= 0; i-- {
			r.cleanups[i]()
		}
	})
}

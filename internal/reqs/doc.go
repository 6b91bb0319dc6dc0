// Package reqs holds the test that keeps docs/requirements.md true: every requirement is in it,
// and every test that it names exists.
package reqs

// Package reqs holds the tests that keep the pages for people true: every requirement is
// in docs/requirements.md, and every test, file and command that a page names is there.
package reqs

// Package reqs holds the tests of the documents. Every requirement is in
// docs/requirements.md, and every test, file and command that a page names exists.
package reqs

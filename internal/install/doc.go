// Package install holds the tests of the installed files: a root with only acode and a
// shell, and completion in real shells.
package install

// Package install holds the tests of what is installed: a root with acode and a shell alone, and
// completion in real shells.
package install

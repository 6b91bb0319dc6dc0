// Package install changes the configuration files of the agents that use acode's tools.
//
// It edits a file as text, so that order, comments and spaces stay. A record says which
// entries it added. Removing them leaves every other byte.
package install

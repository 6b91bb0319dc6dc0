// Package secrets plants secrets of many kinds wherever a plan can hold one, runs acode over
// it, and looks for them in everything that was kept unsealed: by exact search, and with the
// rules of gitleaks, which is maintained by others and so knows forms that nobody here
// thought of. It is a module of its own so that acode depends on none of this.
package secrets

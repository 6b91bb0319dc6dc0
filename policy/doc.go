// Package policy judges the calls of a model: may acode carry them out, must a person be
// asked first, or are they refused?
//
// It is pure: equal steps and facts get equal verdicts. It trusts no name alone. A
// command only reads if every part of it is a known program outside the workspace with
// arguments that are known to change nothing. Each other command, and each one that
// cannot be looked into, belongs to a class about which a person is asked unless the
// class is allowed.
//
// A wrong judgement changes nothing: a command that is allowed because it only reads runs
// with session.ConfinedReading, without a right to write and without a network. The
// sandbox also decides which files a command can read.
package policy

// Package terminal is what a person or a script sees of acode: progress lines, one live
// line on a terminal, tables, questions, errors, and JSON Lines for scripts.
//
// The result and the progress that leads to it go to standard output; warnings, questions
// and errors go to standard error. With JSON nothing but JSON Lines reaches standard
// output: the first line names the session, the last one is the only line of type
// "result".
//
// Invariants, cited by tests:
//
//	T1  No control character of a title, path or output reaches a terminal (Clean).
//	T2  What is shown of a session depends on notices and on the options only.
package terminal

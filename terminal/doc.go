// Package terminal shows acode to people and scripts: progress lines, live lines on a
// terminal, tables, questions, errors, and JSON Lines for scripts.
//
// The result and the progress that leads to it go to standard output; warnings, questions
// and errors go to standard error. With JSON only JSON Lines reach standard output. The
// first line names the session. The last line is the only one of type "result".
//
// Invariants, cited by tests:
//
//	T1  No control character of a title, path or output reaches a terminal (Clean).
//	T2  The output about a session depends only on its notices and the options.
package terminal

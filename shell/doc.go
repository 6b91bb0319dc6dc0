// Package shell reads shell texts without running them: which variables of its
// environment a text needs, and whether it has a pipeline.
//
// What it says of variables errs on the side of too many. A name is left out only where
// the text has given it a value on every way that leads to the place that reads it. What
// a function sets counts within the function only.
//
// Time and memory grow with the length of the text, which has a limit.
package shell

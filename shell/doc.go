// Package shell reads shell texts without running them. It reports which variables of
// its environment a text needs, whether it has a pipeline, and which programs it starts.
//
// It reports too many variables rather than too few. It omits a name only if the text
// has given it a value on every path to the place that reads it. An assignment in a
// function counts within the function only.
//
// Time and memory grow with the length of the text, which has a limit.
package shell

// Command bench measures acode against a lower bound: one synced write of the same bytes,
// the file calls of a step, an empty Go program, or git. Each figure is a ratio of
// medians, and of 95th percentiles, of two things that one run does in turn. Absolute
// times depend more on the machine and its other users than on acode. Counts, such as
// fsyncs, are exact: bench counts them under the tracer of the crash tests.
//
// It prints every limit beside its figure and marks figures that exceed it. Only a failed
// measurement makes it exit with an error, because a missed limit on a busy machine must
// not break a build.
package main

// Command bench measures acode against what nobody can undercut: one synced write of the same
// bytes, the file calls of a step, an empty Go program, git. Each figure is a ratio of medians,
// and of 95th percentiles, of two things that were done in turn in one run, because absolute
// times say more about the machine and its other users than about acode. What can be counted,
// like fsyncs, is counted under the tracer of the crash tests and is exact.
//
// It prints every limit beside its figure and marks what is over it. Only a failure to measure
// ends it with an error: a limit that is missed on a busy machine must not break a build.
package main

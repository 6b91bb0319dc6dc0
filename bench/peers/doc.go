// Command peers measures acode beside DBOS Transact for Go, a library that makes workflows
// durable in the same way: both keep a step's result in SQLite, through the same driver and
// with synchronous=FULL, and both are measured in turn in one run. It is a module of its own,
// so that acode never depends on what it is compared with.
//
// Two things are compared: a durable operation with a result of 1,000 bytes, and a resume of
// 100 steps of which 50 are done, from the start of the process to its first new step.
package main

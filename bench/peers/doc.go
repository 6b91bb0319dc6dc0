// Command peers compares acode with libraries that do parts of its work, in turn in one
// run. It is its own module, so that acode does not depend on them.
//
// DBOS Transact for Go makes workflows durable in the same way: both store a step's
// result in SQLite, through the same driver and with synchronous=FULL. Two things are
// compared: a durable operation with a result of 1,000 bytes, and a resume of 100 steps
// of which 50 are done, from the start of the process to its first new step.
//
// River brings jobs into PostgreSQL. A drain of a backlog is compared with River's
// fastest insert of as many jobs of the same size, in the cluster that
// ACODE_TEST_POSTGRES names. The argument river compares only that.
package main

// Command peers measures acode beside libraries that do what parts of it do, in turn in one
// run. It is a module of its own, so that acode never depends on what it is compared with.
//
// DBOS Transact for Go makes workflows durable in the same way: both keep a step's result in
// SQLite, through the same driver and with synchronous=FULL. Two things are compared: a durable
// operation with a result of 1,000 bytes, and a resume of 100 steps of which 50 are done, from
// the start of the process to its first new step.
//
// River brings jobs into PostgreSQL. A drain of a backlog is compared with its fastest way of
// inserting as many jobs of the same size, in the cluster that ACODE_TEST_POSTGRES names. The
// argument river compares only that.
package main

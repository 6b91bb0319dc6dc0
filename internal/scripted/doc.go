// Package scripted is an agent without a model: a client of acode's tools that makes a
// fixed list of calls, keeps a transcript, and continues from it after a kill. It makes a
// call again if the transcript has no result of it, as real agents do. Judge compares the
// transcript with what the commands themselves wrote.
package scripted

// Command e2e tests real agents with acode's tools: Claude Code and Codex, installed
// with npm. A scripted model on loopback drives them. Each is killed with SIGKILL,
// continued by its own command, and judged.
//
// The model makes a fixed list of calls. It decides only from the conversation that the
// client sends: it makes the first call that has no result. After a told answer it
// looks whether the list contains its call, and otherwise makes the call again, in half
// of the runs in other words. In some runs it makes two calls in one message; Codex
// then has both in flight at once, and Claude Code one after the other.
//
// Half of the kills come some time after a reply of the model, half just after an
// effect. Half of the kills end the main process of the client only. The other half end
// its whole tree: the client and acode's server; in some of them also the supervisor
// and the command that runs. Only there may the outcome of that command be unknown.
// Half of the clients are continued at once, half after a pause.
//
// The judge reads the ledger, to which each command appends one line with a random
// number, and the files. It does not ask acode:
//
//	J1  Each effect is there once.
//	J2  Each call has a result in the conversation that the client sent last.
//	J3  Each result that the model got has its line of the ledger, also one that was
//	    recovered, or that it was told.
//
// The parts, one for -part each:
//
//	ids      what the client says about its conversation, and its calls in flight
//	late     how late after an answer the client still forgets it
//	kills    the kills with acode's tools
//	control  kills with the client's own tools, where effects must repeat
//
// It also has two parts of `make demo-tools`: an agent without a model, and the model
// for Claude Code.
package main

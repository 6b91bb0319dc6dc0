// Package mcp serves tools over the Model Context Protocol: files and commands to an
// agent, or control tools, which act on sessions and call them tasks.
//
// A call that changes something is an operation of a session: package app commits its
// intent, carries it out, commits its receipt, and only then this package answers.
// Package mcp turns calls into operations and answers into words. It adds what a client
// of this protocol needs:
//
//   - M1: No message ends the server, and a bad one changes nothing.
//   - M2: The end of a connection, of a request or of a handler ends no operation.
//   - M3: A call whose answer the client may have lost is not carried out a second time
//     before the client was told of the first. Owed has the rule.
//   - M4: An answer counts as written only after its last byte is in the pipe.
//   - M5: No tool approves, denies or answers a question for a person.
package mcp

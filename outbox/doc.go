// Package outbox drains the local journal to the remote mirror.
//
// The outbox is the suffix of each session's events above what the server has
// acknowledged. Delivery is at least once and the server is an idempotent consumer, so
// the effect is exactly once (FR-053, FR-054). Nothing here blocks a session (FR-050).
//
// Invariants, cited by tests:
//
//	O1  The server's mark is the only acknowledgement, up or down.
//	O2  Only a row that a reachable server refuses counts an attempt; an outage counts none.
//	O3  A lane's trouble is its own: the others go on.
//	O4  No call to the server outlives its deadline, and no wait its backoff.
//	O5  While anything is pending, its age rises, whatever the reason.
package outbox

// Package outbox drains the local journal to the remote mirror.
//
// The outbox is the suffix of each session's events above the server's acknowledgement.
// Delivery is at least once and the server is an idempotent consumer, so the effect is
// exactly once (FR-053, FR-054). This package blocks no session (FR-050).
//
// Invariants, cited by tests:
//
//	O1  The server's mark is the only acknowledgement, up or down.
//	O2  Only a row that a reachable server refuses counts an attempt; an outage counts
//	    none.
//	O3  One lane's trouble does not stop the other lanes.
//	O4  No call to the server outlives its deadline, and no wait its backoff.
//	O5  While any event is pending, its age rises, whichever fault there is.
package outbox

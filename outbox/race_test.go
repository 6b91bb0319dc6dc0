//go:build race

package outbox_test

// outageDays is the longest outage of the tests; the race detector makes each timer slow.
const outageDays = 7

//go:build !race

package outbox_test

// outageDays is the longest outage of the tests.
const outageDays = 30

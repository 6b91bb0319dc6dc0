//go:build !race

package outbox_test

// outageDays is the longest outage that is played.
const outageDays = 30

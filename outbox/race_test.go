//go:build race

package outbox_test

// outageDays is the longest outage that is played; the detector makes each timer slow.
const outageDays = 7

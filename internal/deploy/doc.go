// Package deploy holds the tests that keep deploy/, docker-compose.yml and the pages of
// alerts in docs/operations.md true: every metric that is asked for exists, every alert
// fires when it should and has its page, every file that is named is there.
package deploy

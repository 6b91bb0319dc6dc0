// Package deploy holds the tests of deploy/, docker-compose.yml and the alerts in
// docs/operations.md. Every queried metric exists, every alert fires when it should and
// is documented, and every named file exists.
package deploy

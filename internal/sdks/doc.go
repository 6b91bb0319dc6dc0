// Package sdks compares how acode and the official clients of providers read the same
// streams, and whether those clients know every field of acode's requests. The package is
// its own module, so that acode does not depend on the clients.
package sdks

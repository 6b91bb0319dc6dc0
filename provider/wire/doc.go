// Package wire reaches models over HTTP, and reads the streams that they send. The
// dialects share it.
//
//   - H1: A key goes only to the host of the model's own base URL, and never into an
//     error or a log. Redirects are not followed. No proxy comes from the environment.
//   - H2: Without TLS, only this machine is reached.
//   - H3: The bytes of a reply are passed on as they arrive, unchanged. Reading them is
//     a pure function, which never leaves out a part that it does not know.
//   - H4: Each request ends at its deadline, and each size is limited.
package wire

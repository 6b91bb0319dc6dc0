package mcp

import "golang.org/x/sys/unix"

// unread is the request for the number of unread bytes of a pipe.
const unread = unix.TIOCINQ

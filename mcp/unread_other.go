//go:build !linux

package mcp

// unread is the request for the number of unread bytes of a pipe, FIONREAD.
const unread = 0x4004667f

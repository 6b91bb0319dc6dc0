//go:build !linux

package local

// writingVFS names the VFS of connections that write; empty: SQLite's own. Other systems have no
// call that syncs the data alone, or none that reaches the disk.
func writingVFS() string { return "" }

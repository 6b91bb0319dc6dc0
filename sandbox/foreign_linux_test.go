package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"testing"
)

// foreign is a program for amd64 that makes a 32-bit system call: it unshares its user
// namespace. A filter that looks at numbers only takes it for another call.
const foreign = "foreign"

// runsForeign reports whether this kernel has 32-bit system calls.
func runsForeign() bool {
	_, err := os.Stat("/proc/sys/abi/vsyscall32")
	return runtime.GOARCH == "amd64" && err == nil
}

func writeForeign(t *testing.T, path string) {
	t.Helper()
	code := []byte{
		// eax = unshare, ebx = CLONE_NEWUSER, int 0x80
		0xb8, 0x36, 0x01, 0, 0, 0xbb, 0, 0, 0, 0x10, 0xcd, 0x80,
		// exit with the error number
		0x89, 0xc7, 0xf7, 0xdf, 0xb8, 60, 0, 0, 0, 0x0f, 0x05,
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(code))
	var program bytes.Buffer
	for _, part := range []any{
		[]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		// an executable for x86-64
		[2]uint16{2, 62}, uint32(1), [3]uint64{base + headers, 64, 0}, uint32(0), [6]uint16{64, 56, 1, 64, 0, 0},
		// one segment to read and execute
		[2]uint32{1, 5}, [6]uint64{0, base, base, size, size, 4096}, code,
	} {
		must(t, binary.Write(&program, binary.LittleEndian, part))
	}
	must(t, os.WriteFile(path, program.Bytes(), 0o755))
}

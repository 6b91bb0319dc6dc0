package pgtest

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// sysidInWAL is the offset of the identifier in the header of a segment's first page. No
// checksum covers it.
const sysidInWAL = 24

// identify gives a copied cluster a new system identifier, as initdb would. It changes
// pg_control and the segments, because the server refuses segments with another
// identifier. pg_resetwal would do the second half, but it waits for the disk.
func (f *files) identify(data string) error {
	path := filepath.Join(data, "global", "pg_control")
	control, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read pg_control: %w", err)
	}
	before := string(control[:8])
	if err := renumber(control); err != nil {
		return err
	}
	if err := patch(path, 0, control); err != nil {
		return fmt.Errorf("write pg_control: %w", err)
	}
	segments, err := filepath.Glob(filepath.Join(data, "pg_wal", "0000*"))
	if err != nil || len(segments) == 0 {
		return fmt.Errorf("find WAL segments: got %d, %w", len(segments), err)
	}
	for _, path := range segments {
		segment, err := os.ReadFile(path)
		if err != nil || len(segment) < sysidInWAL+8 || string(segment[sysidInWAL:sysidInWAL+8]) != before {
			return fmt.Errorf("%s: found no system identifier: %w", path, err)
		}
		if err := patch(path, sysidInWAL, control[:8]); err != nil {
			return fmt.Errorf("write WAL: %w", err)
		}
	}
	return nil
}

// patch changes a part of a file.
func patch(path string, at int64, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, at)
	return err
}

// renumber changes the identifier and the checksum of pg_control. The identifier comes
// first. The checksum comes last in a structure whose length depends on the version. The
// rest is zero bytes.
func renumber(control []byte) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	for end := 64; end+4 <= len(control); end += 4 {
		if binary.LittleEndian.Uint32(control[end:]) != crc32.Checksum(control[:end], table) {
			continue
		}
		// Read never fails.
		_, _ = rand.Read(control[:8])
		// Readers show it as a signed number.
		control[7] &= 0x7f
		binary.LittleEndian.PutUint32(control[end:], crc32.Checksum(control[:end], table))
		return nil
	}
	return errors.New("pg_control: found no checksum")
}

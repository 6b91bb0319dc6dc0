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

// identify gives a copied cluster a system identifier of its own, as initdb would have done.
func (f *files) identify(data string) error {
	path := filepath.Join(data, "global", "pg_control")
	control, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read pg_control: %w", err)
	}
	if err := renumber(control); err != nil {
		return err
	}
	if err := f.write(path, string(control)); err != nil {
		return fmt.Errorf("write pg_control: %w", err)
	}
	_, err = run(f.acct.command(f.program("pg_resetwal"), "--force", data)) // its pages name the identifier
	return err
}

// renumber changes the identifier, which comes first in pg_control, and the checksum, which
// comes last in a structure whose length depends on the version. The rest is zero bytes.
func renumber(control []byte) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	for end := 64; end+4 <= len(control); end += 4 {
		if binary.LittleEndian.Uint32(control[end:]) != crc32.Checksum(control[:end], table) {
			continue
		}
		_, _ = rand.Read(control[:8]) // it never fails
		control[7] &= 0x7f            // readers show it as a signed number
		binary.LittleEndian.PutUint32(control[end:], crc32.Checksum(control[:end], table))
		return nil
	}
	return errors.New("pg_control: found no checksum")
}

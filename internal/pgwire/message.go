package pgwire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Codes in the place of a version in the first message of a connection.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// maxMessageBytes is PostgreSQL's limit.
const maxMessageBytes = 1 << 30

// readMessage reads a message with a type.
func readMessage(r *bufio.Reader) ([]byte, error) {
	header, err := r.Peek(5)
	if err != nil {
		return nil, err
	}
	return readBody(r, 1, int64(binary.BigEndian.Uint32(header[1:])))
}

// readStartup reads one of the first messages of a client, which have no type, and
// returns its code.
func readStartup(r *bufio.Reader) ([]byte, uint32, error) {
	header, err := r.Peek(8)
	if err != nil {
		return nil, 0, err
	}
	b, err := readBody(r, 0, int64(binary.BigEndian.Uint32(header)))
	if err != nil {
		return nil, 0, err
	}
	return b, binary.BigEndian.Uint32(b[4:]), nil
}

// readBody reads a message. Its length, which includes itself, follows after skip bytes.
func readBody(r *bufio.Reader, skip int, length int64) ([]byte, error) {
	// A first message also has a code.
	least := int64(4)
	if skip == 0 {
		least = 8
	}
	if length < least || length > maxMessageBytes {
		return nil, fmt.Errorf("a message of %d bytes is none of PostgreSQL's", length)
	}
	b := make([]byte, int64(skip)+length)
	_, err := io.ReadFull(r, b)
	return b, err
}

package remote

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/acode-dev/acode/session"
)

// Object ids of PostgreSQL's types, which are the same everywhere.
const (
	oidBytea      = 17
	oidInt8       = 20
	oidInt4       = 23
	oidText       = 25
	oidUUID       = 2950
	oidBytesArray = 1001
	oidTextArray  = 1009
	oidInt8Array  = 1016
	oidUUIDArray  = 2951
)

// binaryFormat says that a value is in PostgreSQL's binary form; answers are asked for as text.
const binaryFormat = 1

// call is one statement with its parameters. It is sent without a name, so that nothing of it
// stays with the connection.
type call struct {
	sql     string
	values  [][]byte
	oids    []uint32
	formats []int16
}

func newCall(sql string) *call { return &call{sql: sql} }

func (c *call) add(oid uint32, value []byte) *call {
	c.values = append(c.values, value)
	c.oids = append(c.oids, oid)
	c.formats = append(c.formats, binaryFormat)
	return c
}

func (c *call) text(s string) *call   { return c.add(oidText, []byte(s)) }
func (c *call) bytes(b []byte) *call  { return c.add(oidBytea, b[:len(b):len(b)]) }
func (c *call) uuid(u [16]byte) *call { return c.add(oidUUID, u[:]) }
func (c *call) int8(n int64) *call {
	return c.add(oidInt8, binary.BigEndian.AppendUint64(nil, uint64(n)))
}
func (c *call) int4(n int) *call {
	return c.add(oidInt4, binary.BigEndian.AppendUint32(nil, uint32(n)))
}
func (c *call) array(a *array) *call  { return c.add(a.oid, a.finish()) }
func (c *call) batch(b *pgconn.Batch) { b.ExecParams(c.sql, c.values, c.oids, c.formats, nil) }

// array collects the elements of a one-dimensional array in binary form.
type array struct {
	oid uint32
	n   int
	b   []byte
}

// arrayHeader is dimensions, has nulls, type of elements, length, lower bound: 4 bytes each.
const arrayHeader = 20

func newArray(oid, element uint32, n, bytes int) *array {
	b := make([]byte, arrayHeader, arrayHeader+4*n+bytes)
	binary.BigEndian.PutUint32(b, 1)
	binary.BigEndian.PutUint32(b[8:], element)
	binary.BigEndian.PutUint32(b[16:], 1)
	return &array{oid: oid, b: b}
}

func (a *array) bytes(v []byte) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, uint32(len(v)))
	a.b = append(a.b, v...)
}

func (a *array) text(v string) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, uint32(len(v)))
	a.b = append(a.b, v...)
}

func (a *array) int8(v int64) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, 8)
	a.b = binary.BigEndian.AppendUint64(a.b, uint64(v))
}

func (a *array) finish() []byte {
	if a.n == 0 {
		empty := make([]byte, 12)
		copy(empty[8:], a.b[8:12])
		return empty
	}
	binary.BigEndian.PutUint32(a.b[12:], uint32(a.n))
	return a.b
}

// row reads the columns of an answer in order. The first that cannot be read is kept as the
// error.
type row struct {
	values [][]byte
	next   int
	err    error
}

func (r *row) text() string {
	if r.next >= len(r.values) {
		r.fail("a column is missing")
		return ""
	}
	r.next++
	return string(r.values[r.next-1])
}

func (r *row) int() int64 {
	n, err := strconv.ParseInt(r.text(), 10, 64)
	if err != nil {
		r.fail("a number is none")
	}
	return n
}

func (r *row) bool() bool { return r.text() == "t" }

func (r *row) hash() (h session.Hash) {
	b, err := hex.DecodeString(r.text())
	if err != nil || copy(h[:], b) != len(h) || len(b) != len(h) {
		r.fail("a hash is none")
	}
	return h
}

func (r *row) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errAnswer, what)
	}
}

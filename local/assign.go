package local

import (
	"database/sql/driver"
	"fmt"
	"math"
	"reflect"

	"github.com/acode-dev/acode/session"
)

// assign stores a column in the variable that dst points to. It converts only types that
// SQLite lacks. A value of another type than its column means damage. Such a value might
// read the same, but SQLite would refuse to write it back, perhaps only after an effect.
func assign(dst any, v driver.Value) error {
	ok := false
	switch d := dst.(type) {
	case *any:
		*d, ok = v, true
	case *string:
		*d, ok = v.(string)
	case *[]byte:
		ok = assignBytes(d, v)
	case *session.Hash:
		var b []byte
		b, ok = v.([]byte)
		*d = hash32(b)
	case *[16]byte:
		var b []byte
		b, ok = v.([]byte)
		copy(d[:], b)
	default:
		return assignNumber(dst, v)
	}
	return mismatch(ok, dst, v)
}

func mismatch(ok bool, dst any, v driver.Value) error {
	if ok {
		return nil
	}
	return fmt.Errorf("it holds %T, which %T cannot store", v, dst)
}

// assignBytes also takes text, because payloads are text.
func assignBytes(d *[]byte, v driver.Value) bool {
	switch b := v.(type) {
	case []byte:
		*d = b
	case string:
		*d = []byte(b)
	case nil:
		*d = nil
	default:
		return false
	}
	return true
}

func assignNumber(dst any, v driver.Value) error {
	n, ok := v.(int64)
	switch d := dst.(type) {
	case *int64:
		*d = n
	case *int:
		*d = int(n)
	case *uint64:
		*d, ok = uint64(n), ok && n >= 0
	case *uint32:
		*d, ok = uint32(n), ok && n >= 0 && n <= math.MaxUint32
	case *bool:
		*d, ok = n == 1, ok && (n == 0 || n == 1)
	default:
		return assignNamed(dst, v)
	}
	return mismatch(ok, dst, v)
}

// assignNamed stores text in a variable whose type is based on string.
func assignNamed(dst any, v driver.Value) error {
	s, ok := v.(string)
	if d := reflect.ValueOf(dst).Elem(); ok && d.Kind() == reflect.String {
		d.SetString(s)
		return nil
	}
	return mismatch(false, dst, v)
}

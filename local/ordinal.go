package local

import "fmt"

// ordinals number the steps or the files of a session from 1, in the order in which its events
// first name them. The numbers are keys of rows, so that rows written one after the other lie
// beside each other.
type ordinals[K comparable] map[K]int64

// number gives the ordinal of k, the next one where it has none yet.
func (o ordinals[K]) number(k K) (n int64, known bool) {
	if n, known = o[k]; !known {
		n = int64(len(o)) + 1
		o[k] = n
	}
	return n, known
}

// take notes what a row says; two rows of one name are an error.
func (o ordinals[K]) take(k K, pos int64) error {
	if _, twice := o[k]; twice {
		return fmt.Errorf("two rows of %v", k)
	}
	o[k] = pos & ordinalMask
	return nil
}

// complete reports whether there is one row of each number from 1: as keys of their table the numbers
// differ, so it is enough that none lies outside.
func (o ordinals[K]) complete() bool {
	for _, n := range o {
		if n < 1 || n > int64(len(o)) {
			return false
		}
	}
	return true
}

// rowPosition packs a session's number and an ordinal into the key of steps and files.
func rowPosition(no, n int64) int64 { return no<<32 | n }

const ordinalMask = 1<<32 - 1

package disk

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// blockSize is what a disk writes whole or not at all, in bytes.
const blockSize = 4096

type block [blockSize]byte

// Disk is what a disk holds and what was written to it since it was made, in order. Its
// methods may be called concurrently.
type Disk struct {
	size int64

	mu sync.Mutex
	// at the beginning, by number; a block that is not there holds zeros
	before map[int64]*block
	// blocks are never changed, but replaced
	now    map[int64]*block
	events []event
	// nil: there is none
	stop   *stop
	broken bool
	// when broken: after how many events nothing can be written any more
	breaks int
	// something could not be written
	missed bool
	// how long each one takes at least
	flushes time.Duration
}

// stop is a moment from which on a disk does nothing more.
type stop struct {
	// number of events
	at int
	// closed when somebody wants to write after it
	reached chan struct{}
	// closed when the disk goes on
	released chan struct{}
}

// event is a block that was written, or a flush.
type event struct {
	number int64
	// nil: a flush, which ends when all before it is durable
	data *block
}

// New gives an empty disk of size bytes, a multiple of 4,096.
func New(size int64) *Disk {
	return &Disk{size: size, before: map[int64]*block{}, now: map[int64]*block{}}
}

// Len is the number of events so far: blocks written, and flushes.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

// Cut gives the disk as a loss of power after the first n events may leave it: with all
// that was written before the last flush among them, and of the later blocks those that
// lot decides on.
func (d *Disk) Cut(n int, rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	durable := 0
	for i, e := range d.events[:n] {
		if e.data == nil {
			durable = i
		}
	}
	kept := rng.Float64()
	left := maps.Clone(d.before)
	for i, e := range d.events[:n] {
		if e.data != nil && (i < durable || rng.Float64() < kept) {
			left[e.number] = e.data
		}
	}
	return &Disk{size: d.size, before: left, now: maps.Clone(left)}
}

// Stop makes the disk do nothing more once it has seen n events: who wants to write
// waits, and thus never learns that anything became durable. reached is closed when
// somebody waits. The power can be cut at that very moment, whoever uses the disk killed,
// and the disk released, after which it goes on.
func (d *Disk) Stop(n int) (reached <-chan struct{}, release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &stop{at: n, reached: make(chan struct{}), released: make(chan struct{})}
	d.stop = s
	return s.reached, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stop = nil
		close(s.released)
	}
}

// Break makes all that is written after the first n events fail, and each flush. What was
// written before can be read. Fork and Cut give disks that work.
func (d *Disk) Break(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken, d.breaks = true, n
}

// Slow makes each flush take d at least, as those of real disks do; 0: no longer than it
// does. It is called before the disk is used, and Fork and Cut give disks without it.
func (d *Disk) Slow(flush time.Duration) { d.flushes = flush }

// Missed reports whether something could not be written.
func (d *Disk) Missed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missed
}

// fails says whether the disk can no longer be written, to who wants to. The caller holds
// mu.
func (d *Disk) fails() bool {
	if d.broken && len(d.events) >= d.breaks {
		d.missed = true
	}
	return d.missed
}

// begin waits while the disk is stopped, and locks it.
func (d *Disk) begin() {
	for d.mu.Lock(); d.stop != nil && len(d.events) >= d.stop.at; d.mu.Lock() {
		s := d.stop
		select {
		case <-s.reached:
		default:
			close(s.reached)
		}
		d.mu.Unlock()
		<-s.released
	}
}

// Fork gives a disk that begins with what is on d now.
func (d *Disk) Fork() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{size: d.size, before: maps.Clone(d.now), now: maps.Clone(d.now)}
}

// Save writes what was on d at the beginning to a file that can be mounted.
func (d *Disk) Save(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	errs := []error{f.Truncate(d.size)}
	for number, b := range d.before {
		_, err := f.WriteAt(b[:], number*blockSize)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, f.Close())...)
}

// read fills to from an offset.
func (d *Disk) read(to []byte, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(to) > 0 {
		from := at % blockSize
		n := min(len(to), blockSize-int(from))
		if b := d.now[at/blockSize]; b != nil {
			copy(to[:n], b[from:])
		} else {
			clear(to[:n])
		}
		to, at = to[n:], at+int64(n)
	}
}

// write puts data at an offset; each block of it is one event. It reports whether it
// could.
func (d *Disk) write(data []byte, at int64) bool {
	d.begin()
	defer d.mu.Unlock()
	if d.fails() {
		return false
	}
	for len(data) > 0 {
		number, from := at/blockSize, at%blockSize
		b := new(block)
		if old := d.now[number]; old != nil {
			*b = *old
		}
		n := copy(b[from:], data)
		d.now[number] = b
		d.events = append(d.events, event{number, b})
		data, at = data[n:], at+int64(n)
	}
	return true
}

// flush makes durable what was written, and reports whether it could.
func (d *Disk) flush() bool {
	if d.flushes > 0 {
		<-time.After(d.flushes)
	}
	d.begin()
	defer d.mu.Unlock()
	if d.fails() {
		return false
	}
	d.events = append(d.events, event{})
	return true
}

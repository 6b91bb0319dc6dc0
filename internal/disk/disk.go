package disk

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// blockSize is the number of bytes that a disk writes whole or not at all.
const blockSize = 4096

type block [blockSize]byte

// Disk records the content of a disk and all writes since it was made, in order. Its
// methods may be called concurrently.
type Disk struct {
	size int64

	mu sync.Mutex
	// before is the initial content by block number. A missing block holds zeros.
	before map[int64]*block
	// now is the current content. Blocks are never changed, only replaced.
	now    map[int64]*block
	events []event
	// stop may be nil.
	stop   *stop
	broken bool
	// breaks is the number of events after which a broken disk refuses writes.
	breaks int
	// missed means that a write was refused.
	missed bool
	// flushes is the least duration of a flush.
	flushes time.Duration
}

// stop is a moment after which a disk does nothing more.
type stop struct {
	// at is a number of events.
	at int
	// reached is closed when a writer waits.
	reached chan struct{}
	// released is closed when the disk continues.
	released chan struct{}
}

// event is a written block or a flush.
type event struct {
	number int64
	// data is nil for a flush, which ends when all earlier blocks are durable.
	data *block
}

// New returns an empty disk of size bytes, a multiple of 4,096.
func New(size int64) *Disk {
	return &Disk{size: size, before: map[int64]*block{}, now: map[int64]*block{}}
}

// Len returns the number of events so far: blocks written, and flushes.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

// Cut returns a state of the disk that a loss of power after the first n events may
// leave. It holds all blocks written before the last of their flushes, and a random
// choice of the later blocks.
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

// Stop stops the disk after n events. Writers then wait, so they never learn that a later
// write is durable. reached is closed when a writer waits. At that moment the test can
// cut the power, kill the users of the disk and release it. A released disk continues.
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

// Break makes all writes and flushes after the first n events fail. Earlier data can
// still be read. Fork and Cut return working disks.
func (d *Disk) Break(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken, d.breaks = true, n
}

// Slow makes each flush take at least the given duration, like a real disk; 0 means no
// extra time. Call it before the disk is used. Fork and Cut return disks without it.
func (d *Disk) Slow(flush time.Duration) { d.flushes = flush }

// Missed reports whether a write was refused.
func (d *Disk) Missed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missed
}

// fails reports whether the disk refuses writes, and records the refusal. The caller
// holds mu.
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

// Fork returns a disk that begins with the current content of d.
func (d *Disk) Fork() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{size: d.size, before: maps.Clone(d.now), now: maps.Clone(d.now)}
}

// Save writes the initial content of d to a file that can be mounted.
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

// read fills to with the bytes at an offset.
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

// write puts data at an offset. Each block of it is one event. It reports success.
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

// flush makes all writes durable. It reports success.
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

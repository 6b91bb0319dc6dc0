package disk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// content returns n blocks of one letter.
func content(letter byte, n int) []byte { return bytes.Repeat([]byte{letter}, n*blockSize) }

func (d *Disk) at(number, n int) []byte {
	b := make([]byte, n*blockSize)
	d.read(b, int64(number)*blockSize)
	return b
}

func TestReadWhatWasWritten(t *testing.T) {
	d := New(8 * blockSize)
	d.write([]byte("hello"), blockSize-2)
	got := make([]byte, 7)
	d.read(got, blockSize-3)
	if want := []byte("\x00hello\x00"); !bytes.Equal(got, want) {
		t.Errorf("read: got %q, want %q", got, want)
	}
	if d.Len() != 2 {
		t.Errorf("Len after a write over the border of two blocks: got %d, want 2", d.Len())
	}
}

// Flushed blocks are on the disk after every later cut. Of the other blocks, all, none or
// some may be there, but no block written after the cut.
func TestCutKeepsWhatWasFlushed(t *testing.T) {
	d := New(8 * blockSize)
	d.write(content('a', 2), 0)
	d.flush()
	d.write(content('b', 4), blockSize)
	beforeLast := d.Len()
	d.write(content('c', 1), 0)
	lost, kept, mixed := 0, 0, 0
	rng := rand.New(rand.NewPCG(1, 1))
	for range 400 {
		left := d.Cut(beforeLast, rng)
		if !bytes.Equal(left.at(0, 1), content('a', 1)) {
			t.Fatal("Cut: the first block is not as the flush left it")
		}
		switch now := left.at(1, 4); {
		case bytes.Equal(now, content('b', 4)):
			kept++
		case bytes.Equal(now[:blockSize], content('a', 1)) && bytes.Equal(now[blockSize:], make([]byte, 3*blockSize)):
			lost++
		default:
			mixed++
		}
	}
	if lost == 0 || kept == 0 || mixed == 0 {
		t.Errorf("Cut: everything lost %d times, kept %d times, mixed %d times: want each", lost, kept, mixed)
	}
}

// A flush after the cut made nothing durable.
func TestCutBeforeTheFlush(t *testing.T) {
	d := New(8 * blockSize)
	d.write(content('a', 1), 0)
	n := d.Len()
	d.flush()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		if bytes.Equal(d.Cut(n, rng).at(0, 1), make([]byte, blockSize)) {
			return
		}
	}
	t.Error("Cut before a flush: the block is always there")
}

// While a disk is stopped, no write happens and no flush ends.
func TestStoppedDiskWaits(t *testing.T) {
	d := New(8 * blockSize)
	reached, release := d.Stop(2)
	d.write(content('a', 1), 0)
	d.flush()
	done := make(chan struct{})
	go func() {
		d.write(content('b', 1), 0)
		d.flush()
		close(done)
	}()
	<-reached
	select {
	case <-done:
		t.Error("a flush after the stop has ended")
	case <-time.After(20 * time.Millisecond):
	}
	if d.Len() != 2 || !bytes.Equal(d.at(0, 1), content('a', 1)) {
		t.Errorf("after the stop: got %d events", d.Len())
	}
	release()
	<-done
	if d.Len() != 4 || !bytes.Equal(d.at(0, 1), content('b', 1)) {
		t.Errorf("after the release: got %d events", d.Len())
	}
}

// A broken disk refuses writes and keeps its content.
func TestBrokenDisk(t *testing.T) {
	d := New(8 * blockSize)
	d.Break(2)
	if !d.write(content('a', 1), 0) || !d.flush() || d.Missed() {
		t.Error("a write or a flush failed before the disk broke")
	}
	if d.write(content('b', 1), 0) || d.flush() || d.Len() != 2 || !d.Missed() {
		t.Errorf("a broken disk was written: it has seen %d events", d.Len())
	}
	next := d.Fork()
	if !bytes.Equal(next.at(0, 1), content('a', 1)) || !next.write(content('b', 1), 0) || !next.flush() {
		t.Error("Fork of a broken disk: content differs, or it refuses writes")
	}
}

func TestSaveWhatWasThereAtTheBeginning(t *testing.T) {
	d := New(8 * blockSize)
	d.write(content('a', 2), 3*blockSize)
	next := d.Fork()
	next.write(content('b', 8), 0)
	name := filepath.Join(t.TempDir(), "image")
	if err := next.Save(name); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, d.at(0, 8)) {
		t.Errorf("Save: the file holds something else, %d bytes (%v)", len(got), err)
	}
}

// A forked or cut disk has its own history and leaves the original unchanged.
func TestForkAndCutAreDisksOfTheirOwn(t *testing.T) {
	d := New(8 * blockSize)
	d.write(content('a', 1), 0)
	d.flush()
	rng := rand.New(rand.NewPCG(1, 3))
	for name, next := range map[string]*Disk{"Fork": d.Fork(), "Cut": d.Cut(d.Len(), rng)} {
		if next.Len() != 0 {
			t.Errorf("%s: got a history of %d events", name, next.Len())
		}
		next.write(content('b', 1), 0)
		if !bytes.Equal(d.at(0, 1), content('a', 1)) {
			t.Errorf("%s: a write to it changed the disk that it comes from", name)
		}
		if left := next.Cut(0, rng); !bytes.Equal(left.at(0, 1), content('a', 1)) {
			t.Errorf("%s: cut before its first write: the initial content differs", name)
		}
	}
}

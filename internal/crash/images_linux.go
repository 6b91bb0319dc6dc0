package crash

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// sectorBytes is the unit in which a write may be torn.
const sectorBytes = 512

// defaultRandom is the number of seeded images of each cut.
const defaultRandom = 4

// Options selects the images of a recording.
type Options struct {
	// Seed is the seed of the random images.
	Seed uint64
	// Random is the number of seeded images of each cut. 0 means 4, and a negative number
	// means none.
	Random int
}

// Image is one possible state after a power cut. It stays valid after the iteration.
type Image struct {
	// Cut is the number of calls that had returned.
	Cut int
	// Label says which changes that were not durable survived.
	Label string
	// Calls are the first Cut calls. The caller must not change them.
	Calls []Call
	base  *frozen
	fates []fate
}

// frozen is the model at a cut.
type frozen struct {
	root    string
	top     *node
	durable map[*node]content
	pending []*change
}

// fate says how much of a pending change survived.
type fate struct {
	how survival
	// size is the number of bytes that a torn write left.
	size int64
}

type survival byte

const (
	lost survival = iota
	// whole means that all of the change is there.
	whole
	// zeroed means that the length is there and the bytes are zero.
	zeroed
	// torn means that only the first sectors are there.
	torn
)

// Replay returns the tree that programs see after all calls. If it differs from the real
// tree, the recording is incomplete, and its images prove nothing.
func Replay(initial Tree, calls []Call) (Tree, error) {
	m, err := newModel(initial)
	if err != nil {
		return Tree{}, err
	}
	for _, c := range calls {
		if _, err := m.step(c); err != nil {
			return Tree{}, err
		}
	}
	f := m.freeze()
	return f.build(slices.Repeat([]fate{{how: whole}}, len(f.pending))), nil
}

// Images returns the states that a power cut may leave. It cuts at the beginning, after
// each call that changes files, and after each KindAck and KindSend. The calls must be in
// order of End and come from undisturbed runs. The initial tree counts as durable.
//
// For each cut the images contain of the changes that were not synced: none, the first
// ones in order, each one alone, all without one, each write torn or as zeros, and some
// seeded choices. Changes of one directory appear in order, except in the images without
// one. Images with equal choices at one cut appear once. The first error ends the
// iteration.
func Images(initial Tree, calls []Call, o Options) iter.Seq2[Image, error] {
	return func(yield func(Image, error) bool) {
		m, err := newModel(initial)
		for cut := 0; err == nil; cut++ {
			changed := cut == 0
			if cut > 0 {
				changed, err = m.step(calls[cut-1])
				changed = changed || calls[cut-1].Kind == KindAck || calls[cut-1].Kind == KindSend
			}
			if err == nil && changed && !m.imagesAt(calls[:cut:cut], o, yield) {
				return
			}
			if cut == len(calls) {
				break
			}
		}
		if err != nil {
			yield(Image{}, err)
		}
	}
}

func (m *model) freeze() *frozen {
	return &frozen{root: m.tree.Root, top: m.root, durable: maps.Clone(m.durable), pending: slices.Clone(m.pending)}
}

// imagesAt yields the images of one cut. It returns false when yield does.
func (m *model) imagesAt(calls []Call, o Options, yield func(Image, error) bool) bool {
	base := m.freeze()
	seen := map[string]bool{}
	for label, fates := range base.choices(o, uint64(len(calls))) {
		base.legalize(fates)
		key := fmt.Sprint(fates)
		if seen[key] {
			continue
		}
		seen[key] = true
		if !yield(Image{Cut: len(calls), Label: label, Calls: calls, base: base, fates: fates}, nil) {
			return false
		}
	}
	return true
}

// choices returns every tried combination of fates, each in its own slice.
func (f *frozen) choices(o Options, cut uint64) iter.Seq2[string, []fate] {
	n := len(f.pending)
	random := o.Random
	if random == 0 {
		random = defaultRandom
	}
	rng := rand.New(rand.NewPCG(o.Seed, cut))
	return func(yield func(string, []fate) bool) {
		if !yield("nothing unsynced", make([]fate, n)) ||
			!yield("everything", slices.Repeat([]fate{{how: whole}}, n)) {
			return
		}
		for i, c := range f.pending {
			for label, fates := range f.around(i, rng) {
				if !yield(label+" "+c.label, fates) {
					return
				}
			}
		}
		for i := 0; i < random && n > 1; i++ {
			if !yield(fmt.Sprintf("seeded %d", i), f.random(rng)) {
				return
			}
		}
	}
}

// around returns the combinations in which change i differs from the others.
func (f *frozen) around(i int, rng *rand.Rand) iter.Seq2[string, []fate] {
	n, c := len(f.pending), f.pending[i]
	return func(yield func(string, []fate) bool) {
		first := make([]fate, n)
		for j := range i + 1 {
			first[j].how = whole
		}
		alone := make([]fate, n)
		for j := range i {
			if c.onEntries() && f.pending[j].on == c.on && f.pending[j].onEntries() {
				alone[j].how = whole
			}
		}
		alone[i].how = whole
		without := slices.Repeat([]fate{{how: whole}}, n)
		without[i].how = lost
		if !yield("up to", first) || !yield("only", alone) || !yield("without", without) || c.what != effectWrite {
			return
		}
		zeros, cut := slices.Clone(first), slices.Clone(first)
		zeros[i].how = zeroed
		cut[i] = tornFate(c, rng)
		_ = yield("up to zeros of", zeros) && yield("up to a part of", cut)
	}
}

// tornFate cuts a write at a sector of the disk, which is also a sector of the file.
func tornFate(c *change, rng *rand.Rand) fate {
	start := c.off / sectorBytes
	sectors := (c.off+int64(len(c.data))-1)/sectorBytes - start
	if sectors < 1 {
		return fate{how: lost}
	}
	return fate{how: torn, size: (start+1+rng.Int64N(sectors))*sectorBytes - c.off}
}

// random draws a number of first changes for each directory, and a fate for each other
// change.
func (f *frozen) random(rng *rand.Rand) []fate {
	fates := make([]fate, len(f.pending))
	ended := map[*node]bool{}
	for i, c := range f.pending {
		switch {
		case c.onEntries():
			ended[c.on] = ended[c.on] || rng.IntN(4) == 0
			if !ended[c.on] {
				fates[i].how = whole
			}
		case c.what != effectWrite:
			fates[i].how = survival(rng.IntN(2))
		default:
			if fates[i].how = survival(rng.IntN(4)); fates[i].how == torn {
				fates[i] = tornFate(c, rng)
			}
		}
	}
	return fates
}

// legalize restores the old name of a rename whose new name was lost.
func (f *frozen) legalize(fates []fate) {
	there := map[*change]survival{}
	for i, c := range f.pending {
		if c.needs != nil {
			if how, isPending := there[c.needs]; isPending && how == lost {
				fates[i].how = lost
			}
		}
		there[c] = fates[i].how
	}
}

// Tree builds the tree of the image. Its inodes are numbers of the model.
func (i Image) Tree() Tree { return i.base.build(i.fates) }

// Materialize writes the image into dir and creates dir if necessary.
func (i Image) Materialize(dir string) error { return i.Tree().Materialize(dir) }

// String returns the name of the image for reports.
func (i Image) String() string { return fmt.Sprintf("after %d calls, %s", i.Cut, i.Label) }

// build applies the changes according to their fates, and returns the nodes that have a
// name.
func (f *frozen) build(fates []fate) Tree {
	own := map[*node]*content{}
	for i, c := range f.pending {
		if fates[i].how == lost {
			continue
		}
		if own[c.on] == nil {
			copied := f.durable[c.on].clone()
			own[c.on] = &copied
		}
		c.partly(fates[i]).apply(own[c.on])
	}
	t := Tree{Root: f.root, Files: map[string]File{}}
	f.collect(t, own, f.top, ".")
	return t
}

// partly returns the surviving part of a write.
func (c *change) partly(f fate) *change {
	left := *c
	switch f.how {
	case zeroed:
		left.what, left.size = effectGrow, c.off+int64(len(c.data))
	case torn:
		left.data = c.data[:f.size]
	}
	return &left
}

func (f *frozen) collect(t Tree, own map[*node]*content, n *node, name string) {
	c, changed := own[n]
	if !changed {
		durable := f.durable[n]
		c = &durable
	}
	t.Files[name] = File{Mode: n.kind | c.mode, Data: c.data, Target: n.target, Inode: Inode{Ino: uint64(n.id)}}
	if n.kind != fs.ModeDir {
		return
	}
	for base, child := range c.entries {
		f.collect(t, own, child, path.Join(name, base))
	}
}

package redact

import (
	"cmp"
	"slices"
)

// masking is a mask in a masked text and the bytes of the original text that it stands
// for. The bytes between masks are the same in both texts.
type masking struct {
	// in the masked text
	at, end int
	// in the original text
	from, to int
}

// join appends the masks of a part whose masked text begins at and whose original begins
// at from.
func join(masks, part []masking, at, from int) []masking {
	for _, m := range part {
		m = masking{at: m.at + at, end: m.end + at, from: m.from + from, to: m.to + from}
		if m.at == m.end && len(masks) > 0 {
			// a secret goes on that is too long for one part
			masks[len(masks)-1].to = m.to
			continue
		}
		masks = append(masks, m)
	}
	return masks
}

// compose returns the masks of a text that was masked two times. Masks that overlap in
// the text between become one.
func compose(first, second []masking) []masking {
	if len(first) == 0 {
		return second
	}
	if len(second) == 0 {
		return first
	}
	type part struct{ from, to int }
	parts := make([]part, 0, len(first)+len(second))
	for _, m := range first {
		parts = append(parts, part{m.at, m.end})
	}
	for _, m := range second {
		parts = append(parts, part{m.from, m.to})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
	merged := parts[:1]
	for _, p := range parts[1:] {
		if last := &merged[len(merged)-1]; p.from < last.to {
			last.to = max(last.to, p.to)
		} else {
			merged = append(merged, p)
		}
	}
	out := make([]masking, 0, len(merged))
	// what the masks before a place in the text between add to it, back and forth
	back, forth, i, j := 0, 0, 0, 0
	moved := func(x int) (before, after int) {
		for ; i < len(first) && first[i].end <= x; i++ {
			back += first[i].to - first[i].from - (first[i].end - first[i].at)
		}
		for ; j < len(second) && second[j].to <= x; j++ {
			forth += second[j].end - second[j].at - (second[j].to - second[j].from)
		}
		return x + back, x + forth
	}
	for _, p := range merged {
		var m masking
		m.from, m.at = moved(p.from)
		m.to, m.end = moved(p.to)
		out = append(out, m)
	}
	return out
}

package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// width is the number of tokens, and of the dimensions of the model.
const width = 512

// table is a model: tokens, and which one follows which.
type table struct {
	tokens []string
	types  []int32
	next   map[int]int
}

// The types of tokens in a file of a model.
const (
	unknownToken, controlToken, phraseToken, unusedToken, byteToken = 2, 3, 4, 5, 6

	endToken = 2
)

// script makes a model that answers turn n with reply n. A reply is a list of phrases.
func script(replies [][]string) *table {
	t := &table{next: map[int]int{}}
	t.add("<unk>", unknownToken)
	t.add("<s>", controlToken)
	t.add("</s>", controlToken)
	for i := range 256 {
		t.add(fmt.Sprintf("<0x%02X>", i), byteToken)
	}
	for i, reply := range replies {
		at := t.add(turn(i), phraseToken)
		for _, phrase := range reply {
			t.next[at] = t.add(phrase, phraseToken)
			at = t.next[at]
		}
		t.next[at] = endToken
	}
	for len(t.tokens) < width {
		t.add(fmt.Sprintf("<|unused%d|>", len(t.tokens)), unusedToken)
	}
	return t
}

// turn is the token that ends the request of a turn.
func turn(n int) string { return fmt.Sprintf("<|turn%d|>", n) }

func (t *table) add(token string, kind int32) int {
	t.tokens, t.types = append(t.tokens, token), append(t.types, kind)
	return len(t.tokens) - 1
}

// count returns the number of tokens of a text, with the one that begins each text. A
// phrase is one token, and so is each other byte. A space counts as the three bytes of
// the character that stands for it.
func (t *table) count(text string) int {
	var phrases []string
	for i, kind := range t.types {
		if kind == phraseToken || kind == controlToken {
			phrases = append(phrases, t.tokens[i])
		}
	}
	slices.SortFunc(phrases, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return 1 + countPhrases(text, phrases)
}

func countPhrases(text string, phrases []string) (n int) {
	if len(phrases) == 0 {
		return len(strings.ReplaceAll(text, " ", "▁"))
	}
	for i, part := range strings.Split(text, phrases[0]) {
		if i > 0 {
			n++
		}
		n += countPhrases(part, phrases[1:])
	}
	return n
}

// tensor is a part of a model.
type tensor struct {
	name string
	dims []uint64
	data []float32
}

// tensors returns the parts of the model: attention that adds nothing, tokens as unit
// vectors, and the table as the output.
func (t *table) tensors() []tensor {
	fill := func(n int, v float32) []float32 { return slices.Repeat([]float32{v}, n) }
	embed, out := fill(width*width, 0), fill(width*width, 0)
	for i := range width {
		embed[i*width+i] = 1
	}
	for from, to := range t.next {
		out[to*width+from] = 10
	}
	const inner = 32
	square := []uint64{width, width}
	all := []tensor{
		{"token_embd.weight", square, embed}, {"output_norm.weight", []uint64{width}, fill(width, 1)}, {"output.weight", square, out},
		{"blk.0.attn_norm.weight", []uint64{width}, fill(width, 1)}, {"blk.0.ffn_norm.weight", []uint64{width}, fill(width, 1)},
		{"blk.0.ffn_gate.weight", []uint64{width, inner}, fill(width*inner, 0)}, {"blk.0.ffn_up.weight", []uint64{width, inner}, fill(width*inner, 0)},
		{"blk.0.ffn_down.weight", []uint64{inner, width}, fill(width*inner, 0)},
	}
	for _, name := range []string{"q", "k", "v", "output"} {
		all = append(all, tensor{"blk.0.attn_" + name + ".weight", square, fill(width*width, 0)})
	}
	return all
}

// file writes the parts of a file in the form GGUF.
type file struct{ bytes.Buffer }

func (f *file) put(v any) {
	if err := binary.Write(f, binary.LittleEndian, v); err != nil {
		panic("ollama: a number must encode: " + err.Error())
	}
}

func (f *file) text(s string) {
	f.put(uint64(len(s)))
	f.WriteString(s)
}

// setting writes a setting. Its type is that of v.
func (f *file) setting(name string, v any) {
	f.text(name)
	list := func(kind uint32, n int) {
		f.put([]uint32{9, kind})
		f.put(uint64(n))
	}
	switch v := v.(type) {
	case int:
		f.put([]uint32{4, uint32(v)})
	case float32:
		f.put(uint32(6))
		f.put(v)
	case bool:
		f.put(uint32(7))
		f.put(v)
	case string:
		f.put(uint32(8))
		f.text(v)
	case []string:
		list(8, len(v))
		for _, s := range v {
			f.text(s)
		}
	case []float32:
		list(6, len(v))
		f.put(v)
	case []int32:
		list(5, len(v))
		f.put(v)
	}
}

func (f *file) align() {
	for f.Len()%32 != 0 {
		f.WriteByte(0)
	}
}

// bytes returns the file of the model.
func (t *table) bytes() []byte {
	settings := []struct {
		name  string
		value any
	}{
		{"general.architecture", "llama"}, {"general.name", "script"}, {"llama.context_length", 32768}, {"llama.embedding_length", width}, {"llama.block_count", 1},
		{"llama.feed_forward_length", 32}, {"llama.attention.head_count", 8}, {"llama.attention.head_count_kv", 8}, {"llama.rope.dimension_count", width / 8},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-6)}, {"llama.vocab_size", width}, {"tokenizer.ggml.model", "llama"},
		{"tokenizer.ggml.bos_token_id", 1}, {"tokenizer.ggml.eos_token_id", endToken}, {"tokenizer.ggml.unknown_token_id", 0}, {"tokenizer.ggml.add_bos_token", true},
		{"tokenizer.ggml.add_space_prefix", false}, {"tokenizer.ggml.tokens", t.tokens}, {"tokenizer.ggml.scores", make([]float32, width)}, {"tokenizer.ggml.token_type", t.types},
	}
	all := t.tensors()
	var f file
	f.WriteString("GGUF")
	f.put(uint32(3))
	f.put([]uint64{uint64(len(all)), uint64(len(settings))})
	for _, s := range settings {
		f.setting(s.name, s.value)
	}
	offset := uint64(0)
	for _, p := range all {
		f.text(p.name)
		f.put(uint32(len(p.dims)))
		f.put(p.dims)
		f.put(uint32(0))
		f.put(offset)
		offset += uint64(len(p.data)) * 4
	}
	f.align()
	for _, p := range all {
		f.put(p.data)
		f.align()
	}
	return f.Bytes()
}

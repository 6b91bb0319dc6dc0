package main

import (
	"strings"
	"testing"
)

// Each mutant still fits the code, and the tests that claim it are there.
func TestTables(t *testing.T) {
	ms, err := load()
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	count := map[bool]int{}
	for _, m := range ms {
		count[strings.HasPrefix(m.id, named+"/")]++
		if _, err := m.plant(root); err != nil {
			t.Error(err)
		}
		if err := m.claimed(root); err != nil {
			t.Error(err)
		}
	}
	if count[true] != 17 || count[false] < 80 {
		t.Errorf("tables: got %d named and %d other mutants, want 17 and at least 80", count[true], count[false])
	}
}

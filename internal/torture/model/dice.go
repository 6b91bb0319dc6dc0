package model

import "math/rand/v2"

// Dice make random decisions. Equal seeds give equal decisions.
type Dice struct{ *rand.Rand }

// One returns true in one of n cases.
func (d Dice) One(n int) bool { return d.IntN(n) == 0 }

// Pick returns one of the words. There must be at least one.
func (d Dice) Pick(from ...string) string { return from[d.IntN(len(from))] }

package model

import "math/rand/v2"

// Dice decide what is drawn. Equal numbers decide alike.
type Dice struct{ *rand.Rand }

// One says yes in one of n cases.
func (d Dice) One(n int) bool { return d.IntN(n) == 0 }

// Pick gives one of the words, of which there must be some.
func (d Dice) Pick(from ...string) string { return from[d.IntN(len(from))] }

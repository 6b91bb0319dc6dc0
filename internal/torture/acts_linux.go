package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// act is one thing that people do: a command that they type, and how that is disturbed.
type act struct {
	args []string // of acode; own stands for the id of the session
	blow blow     // against the process that args start
}

// own is the id of the session, where a person types it.
const own = "ID"

// blow ends processes at an instant that nobody counts.
type blow struct {
	whom    string // of the victims; empty strikes nobody
	signals []syscall.Signal
	after   time.Duration // since the start
	gap     time.Duration // between two signals
}

// Victims of blows.
const (
	onAcode      = "acode"
	onGroup      = "acode's process group"
	onSupervisor = "the supervisor"
	onBoth       = "acode and the supervisor"
)

// String is the act as a report shows it.
func (a act) String() string {
	text := "acode " + strings.Join(a.args, " ")
	if a.blow.whom != "" {
		text += ", " + a.blow.String()
	}
	return text
}

// String says what a blow does.
func (b blow) String() string {
	var names []string
	for _, s := range b.signals {
		names = append(names, signalNames()[s])
	}
	text := fmt.Sprintf("after %v %s to %s", b.after, strings.Join(names, ", "), b.whom)
	if len(b.signals) > 1 {
		text += fmt.Sprintf(", %v apart", b.gap)
	}
	return text
}

func signalNames() map[syscall.Signal]string {
	return map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGKILL: "KILL"}
}

// Bounds of what people do in one scenario.
const (
	leastActs = 2
	mostActs  = 9
)

// drawActs draws what people do with a session of p, from its run on.
func drawActs(p plan, rng *rand.Rand) []act {
	d := &draw{rng: rng, plan: p}
	all := []act{{args: []string{"run", "--plan", "FILE"}, blow: d.blow()}}
	for range leastActs + rng.IntN(mostActs-leastActs+1) {
		all = append(all, d.act())
	}
	return all
}

// act draws one act.
func (d *draw) act() act {
	switch d.rng.IntN(8) {
	case 0:
		return act{args: []string{"status"}}
	}
	return act{args: []string{"resume"}, blow: d.blow()}
}

// blow draws whom a process loses, and when; often early, when it looks at what there is.
func (d *draw) blow() blow {
	if d.one(5) {
		return blow{}
	}
	longest := []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, 1200 * time.Millisecond}
	b := blow{after: d.upTo(longest[d.rng.IntN(len(longest))])}
	switch d.rng.IntN(8) {
	case 0, 1:
		b.whom, b.signals = onAcode, []syscall.Signal{d.asks()}
	case 2:
		b.whom, b.signals, b.gap = onAcode, []syscall.Signal{d.asks(), d.asks()}, d.upTo(700*time.Millisecond)
	case 3:
		b.whom = onAcode
	case 4:
		b.whom = onGroup
	case 5, 6:
		b.whom = onSupervisor
	case 7:
		b.whom = onBoth
	}
	if b.signals == nil {
		b.signals = []syscall.Signal{syscall.SIGKILL}
	}
	return b
}

// asks draws a signal that asks a process to end.
func (d *draw) asks() syscall.Signal {
	return []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[d.rng.IntN(4)]
}

// upTo draws a time, in milliseconds.
func (d *draw) upTo(longest time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(int64(longest/time.Millisecond)+1)) * time.Millisecond
}

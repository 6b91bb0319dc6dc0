package people

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/acode-dev/acode/internal/torture/model"
)

// Bounds of the acts in one scenario.
const (
	leastActs = 3
	mostActs  = 10
)

// habits draws acts one after the other.
type habits struct {
	model.Dice
	// policy is the plan's.
	policy string
}

// Draw draws the acts of people with a session of p, starting with its run. Equal seeds
// give equal acts.
func Draw(p model.Plan, rng *rand.Rand) []Act {
	d := &habits{model.Dice{Rand: rng}, p.Policy}
	all := []Act{d.seated(Act{args: []string{"run", "--plan", "FILE"}, blow: d.blow()})}
	for n := leastActs + d.IntN(mostActs-leastActs+1); len(all) <= n; {
		all = append(all, d.habit()...)
	}
	return all
}

// Cancelled returns the acts of a person who leaves a command running and then ends it.
func Cancelled() []Act {
	interrupt := blow{whom: onAcode, signals: []syscall.Signal{syscall.SIGINT}, amid: true}
	return []Act{{args: []string{"run", "--plan", "FILE"}, blow: interrupt}, {args: []string{"session", "cancel", own, "--command"}}}
}

// Bounds of shutdowns.
const (
	mostShutdowns = 3
	longestGrace  = 250 * time.Millisecond
)

// Shutdowns draws acts on a machine that shuts down repeatedly: all processes get TERM,
// HUP or INT, and soon afterwards KILL.
func Shutdowns(p model.Plan, rng *rand.Rand) []Act {
	d := &habits{model.Dice{Rand: rng}, p.Policy}
	all := []Act{{args: []string{"run", "--plan", "FILE"}, blow: d.shutdown()}}
	for range 1 + d.IntN(mostShutdowns) {
		all = append(all, Act{heeds: true, args: []string{"resume"}, blow: d.shutdown()})
	}
	return all
}

// shutdown draws a signal for all processes, and the time until KILL.
func (d *habits) shutdown() blow {
	return blow{whom: onAll, signals: []syscall.Signal{d.asks(), syscall.SIGKILL}, amid: !d.One(4), after: d.upTo(300 * time.Millisecond), gap: d.upTo(longestGrace)}
}

// Cancels draws acts that cancel a session of p while it executes or after it was left,
// with its command running or ended.
func Cancels(p model.Plan, rng *rand.Rand) []Act {
	d := &habits{model.Dice{Rand: rng}, p.Policy}
	cancel := append([]string{"session", "cancel", own}, d.form()...)
	all := []Act{{args: []string{"run", "--plan", "FILE"}, blow: d.leaving()}}
	for range d.IntN(5) {
		all = append(all, Act{heeds: true, args: []string{"resume", truthful, "--on-changes=continue"}, blow: d.leaving()})
	}
	switch d.IntN(6) {
	case 0, 1:
	case 2:
		all = append(all, Act{args: cancel, blow: blow{whom: onAcode, signals: []syscall.Signal{syscall.SIGKILL}, after: d.upTo(60 * time.Millisecond)}})
	case 3:
		all = append(all, Act{heeds: true, args: []string{"resume", truthful}, beside: cancel, amid: !d.One(4), later: d.upTo(400 * time.Millisecond)})
	default:
		all = append(all, Act{hand: waits})
	}
	return append(all, Act{args: cancel})
}

// leaving draws a way to leave a session: most often in the middle of a command, which
// continues.
func (d *habits) leaving() blow {
	switch d.IntN(4) {
	case 0:
		return d.blow()
	case 1:
		return d.shutdown()
	}
	return blow{whom: onAcode, signals: []syscall.Signal{[]syscall.Signal{d.asks(), syscall.SIGKILL}[d.IntN(2)]}, amid: true, after: d.upTo(300 * time.Millisecond)}
}

// habit draws acts that people do one after the other.
func (d *habits) habit() []Act {
	switch d.IntN(8) {
	// The person ends a command that still runs.
	case 0:
		return []Act{d.resumed(onAcode, d.asks()), {args: d.ends()}}
	// The person approves twice, and the approval is lost again.
	case 1:
		yes := Act{args: append([]string{"approve", own}, d.form()...)}
		return []Act{yes, yes, d.seated(Act{args: d.resume(), blow: d.blow()})}
	// The outcome of the command is unknowable.
	case 2:
		return []Act{d.resumed(onBoth, syscall.SIGKILL), {args: append([]string{"resume", truthful}, d.form()...)}}
	}
	return []Act{d.act()}
}

// resumed returns a resume that is interrupted in the middle of a command.
func (d *habits) resumed(whom string, sig syscall.Signal) Act {
	return d.seated(Act{heeds: true, args: d.resume(), blow: blow{whom: whom, signals: []syscall.Signal{sig}, amid: true, after: d.upTo(50 * time.Millisecond)}})
}

// ends draws arguments that end commands.
func (d *habits) ends() []string {
	args := []string{"session", "cancel", own}
	switch {
	case d.One(4):
	// With this policy the other steps would continue at once, in another order.
	case d.policy == "continue":
		return d.reader()
	default:
		args = append(args, "--command")
	}
	return append(args, d.form()...)
}

// act draws one act.
func (d *habits) act() Act {
	switch d.IntN(17) {
	case 16:
		return Act{args: append([]string{"run", "--plan", "OTHER"}, d.form()...)}
	case 0, 1:
		return Act{args: d.reader()}
	case 2:
		a := Act{args: d.decision()}
		if d.One(3) {
			a.blow = blow{whom: onAcode, signals: []syscall.Signal{syscall.SIGKILL}, after: d.upTo(40 * time.Millisecond)}
		}
		return a
	case 3, 4:
		return Act{hand: edits, choice: d.IntN(1000)}
	case 5:
		return Act{hand: moves}
	case 6:
		return Act{hand: lookAfter}
	case 7, 8, 9:
		a := Act{heeds: true, args: d.resume(), amid: !d.One(4), later: d.upTo(400 * time.Millisecond), blow: d.blow()}
		a.beside = [][]string{d.reader(), d.decision(), d.resume(), d.resume(), {"run", "--plan", "OTHER"}}[d.IntN(5)]
		return d.seated(a)
	}
	return d.seated(Act{heeds: !d.One(4), args: d.resume(), blow: d.blow()})
}

// seated sometimes puts a person who says no or yes at a terminal.
func (d *habits) seated(a Act) Act {
	if d.One(2) && !slices.Contains(a.args, jsonFlag) {
		a.says, a.heeds = d.Pick("yes", "yes", "yes", "no"), false
	}
	return a
}

// reader draws a command that only reads.
func (d *habits) reader() []string {
	all := [][]string{{"status", own}, {"session", "list"}, {"session", "show", own}, {"session", "show", own, "-v"}, {"session", "history", own},
		{"session", "export", own}, {"session", "unlock", own}, {"verify"}, {"resume", "--dry-run", own}, {"status"}}
	return append(slices.Clone(all[d.IntN(len(all))]), d.form()...)
}

// decision draws a command that decides about the session.
func (d *habits) decision() []string {
	args := []string{"approve", own}
	switch d.IntN(12) {
	case 0, 1:
		args = []string{"deny", own, "--reason", "not today"}
	case 2, 3, 4, 5:
		return d.ends()
	}
	return append(args, d.form()...)
}

// resume draws a resume with any of its flags.
func (d *habits) resume() []string {
	args := []string{"resume"}
	if d.One(2) {
		args = append(args, own)
	}
	some := []string{"--yes", "--on-changes=continue", "--on-changes=continue", "--on-changes=abort", "--in-progress=rollback", "--in-progress=retry",
		"--in-progress=prompt", "--restart-step", truthful, "--wait=2s", "--timeout=300ms", "--force"}
	// This policy would execute steps where the model does not allow it.
	if d.policy == "continue" {
		some = some[:len(some)-1]
	}
	for range d.IntN(4) {
		if flag := d.Pick(some...); !slices.Contains(args, flag) {
			args = append(args, flag)
		}
	}
	return append(args, d.form()...)
}

// truthful is the flag with which a person reports the outcome of a command with an
// unknown outcome.
const truthful = "--uncertain=<rerun|done|fail>"

// form draws flags for the form of the output.
func (d *habits) form() []string {
	switch d.IntN(8) {
	case 0, 1:
		return []string{jsonFlag}
	case 2:
		return []string{"-v"}
	case 3:
		return []string{"-q"}
	}
	return nil
}

// blow draws the victims and the time of a blow, often early, while a process reads the
// existing state.
func (d *habits) blow() blow {
	if d.One(6) {
		return blow{}
	}
	longest := []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 800 * time.Millisecond}
	b := blow{after: d.upTo(longest[d.IntN(len(longest))]), amid: !d.One(4)}
	switch d.IntN(9) {
	// This is like a sleeping laptop.
	case 8:
		b.whom, b.signals, b.gap = onGroup, []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT}, d.upTo(500*time.Millisecond)
	case 0, 1:
		b.whom, b.signals = onAcode, []syscall.Signal{d.asks()}
	case 2, 3:
		b.whom, b.signals, b.gap = onAcode, []syscall.Signal{d.asks(), d.asks()}, d.upTo(700*time.Millisecond)
	case 4:
		b.whom = onAcode
	case 5:
		b.whom = onGroup
	case 6:
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
func (d *habits) asks() syscall.Signal {
	return []syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[d.IntN(4)]
}

// upTo draws a duration in whole milliseconds.
func (d *habits) upTo(longest time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(longest/time.Millisecond)+1)) * time.Millisecond
}

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trial is one run with one kill.
type trial struct {
	number int
	// delay is the time from the model's reply of the number reply to the kill, or from
	// the line of the number line in the ledger; the other one is 0.
	reply, line int
	delay       time.Duration
	// tree kills the whole tree of the client, and all also supervisors and commands.
	tree, all bool
	// pause waits before the resume.
	pause, byID bool
	rewords     bool
	batch       int
}

func (t trial) String() string {
	words := []string{fmt.Sprintf("%2d", t.number), "main"}
	switch {
	case t.all:
		words[1] = "all "
	case t.tree:
		words[1] = "tree"
	}
	if t.line > 0 {
		words = append(words, fmt.Sprintf("line  %2d +%3d ms", t.line, t.delay.Milliseconds()))
	} else {
		words = append(words, fmt.Sprintf("reply %2d +%3d ms", t.reply, t.delay.Milliseconds()))
	}
	for _, part := range []struct {
		is   bool
		word string
	}{{t.pause, "pause"}, {t.byID, "by id"}, {t.rewords, "reworded"}, {t.batch > 1, "batches"}} {
		if part.is {
			words = append(words, part.word)
		}
	}
	return strings.Join(words, " ")
}

// trials draws n trials: half kill the main process, half the tree; in each half, half
// have a pause.
func trials(n int, random *rand.Rand) []trial {
	out := make([]trial, n)
	for i := range out {
		out[i] = trial{number: i + 1, tree: i%2 == 1, all: i%6 == 5, pause: i/2%2 == 1, rewords: i/4%2 == 1, byID: i/8%2 == 1, batch: 1 + i/3%2,
			delay: time.Duration(random.IntN(600)) * time.Millisecond}
		out[i].reply = 1 + random.IntN(len(script())/out[i].batch)
		if random.IntN(2) == 0 { // just after an effect
			out[i].reply, out[i].line, out[i].delay = 0, 1+random.IntN(7), out[i].delay/4
		}
	}
	return out
}

// patience limits one life of a client. On a busy machine one needs minutes to start.
const patience = 5 * time.Minute

// pause is how long a trial waits before the resume. It is longer than the server's
// time to settle an answer.
const pause = 2500 * time.Millisecond

// errMissed says that the client ended before the kill.
var errMissed = errors.New("the client ended before the kill")

// carryOut kills a client at the moment of the trial, resumes it, and judges the end.
func (o options) carryOut(a agent, t trial, own bool) (v verdict, err error) {
	m := &model{script: script(), prefix: a.prefix, rewords: t.rewords, batch: t.batch, think: thinking}
	if own {
		m.shell, m.argument = a.shell, a.argument
	}
	s, err := newSite(filepath.Join(o.dir, fmt.Sprintf("%s-%d-%t", a.name, t.number, own)), o, m)
	if err != nil {
		return v, err
	}
	s.parallel = t.batch > 1
	moment := make(chan struct{})
	m.replied = func(n int) {
		if n == t.reply {
			time.AfterFunc(t.delay, func() { close(moment) })
		}
	}
	cmd, err := a.start(s)
	if err != nil {
		return v, err
	}
	if t.line > 0 {
		go s.watch(t, moment)
	}
	killed, err := killAt(a, cmd, t, moment)
	if err == nil {
		if t.pause {
			<-time.After(pause)
		}
		err = o.resumed(a, s, t)
	}
	if err == nil {
		v = judge(m, s.ws, t.all)
	}
	if err = errors.Join(err, s.close()); err == nil && (own || !v.bad()) {
		return v, os.RemoveAll(s.dir)
	}
	if !errors.Is(err, errMissed) {
		fmt.Printf("   killed %v, see %s\n", killed, s.dir)
	}
	return v, err
}

// thinking is how long a model thinks about a told answer at least.
const thinking = 400 * time.Millisecond

// killAt starts a client and kills it at the moment.
func killAt(a agent, cmd *exec.Cmd, t trial, moment <-chan struct{}) ([]child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-moment:
	case err := <-ended:
		return nil, errors.Join(errMissed, err)
	case <-time.After(patience):
		killTree(cmd.Process.Pid, true)
		return nil, errors.New("the client did not get to the kill")
	}
	var killed []child
	switch {
	case t.tree:
		killed = killTree(cmd.Process.Pid, t.all)
	default:
		killed = a.killMain(cmd.Process.Pid)
	}
	<-ended
	return killed, nil
}

// resumed continues the conversation and waits for its end.
func (o options) resumed(a agent, s *site, t trial) error {
	cmd, err := a.resume(s, t.byID)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { killTree(cmd.Process.Pid, true) })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

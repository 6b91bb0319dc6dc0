package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// delays are the times between an answer and the kill of the client.
func delays() []time.Duration {
	return []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}
}

// settle is the default of acode's server.
const settle = 2 * time.Second

// forgets kills a client at some times after the answer to its second call, and looks
// whether the resumed conversation has this answer. The model does not reply to it: the
// client has nothing to do but to keep it.
func (o options) forgets(a agent) error {
	latest := time.Duration(-1)
	fmt.Printf("%s: is the answer in the resumed conversation? %d kills at each time\n", a.name, o.repeats)
	for _, delay := range delays() {
		kept := 0
		for i := range o.repeats {
			ok, err := o.remembers(a, delay, i)
			if err != nil {
				return fmt.Errorf("%s after an answer: %w", delay, err)
			}
			if ok {
				kept++
			}
		}
		if kept < o.repeats {
			latest = delay
		}
		fmt.Printf("  killed %4d ms after the answer: in %d of %d\n", delay.Milliseconds(), kept, o.repeats)
	}
	if latest < 0 {
		fmt.Println("  it never forgot an answer")
		return nil
	}
	fmt.Printf("  the latest answer that it forgot came %s before the kill; the server settles an answer after %s\n", latest, settle)
	if settle < 2*latest {
		return errors.New("the server settles answers too early")
	}
	return nil
}

// remembers carries out one such kill.
func (o options) remembers(a agent, delay time.Duration, i int) (bool, error) {
	stay := make(chan struct{})
	m := &model{script: script()[:4], prefix: a.prefix}
	m.replied = func(n int) {
		if n == 3 { // the reply to the second answer
			<-stay
		}
	}
	s, err := newSite(filepath.Join(o.dir, fmt.Sprintf("%s-late-%d-%d", a.name, delay.Milliseconds(), i)), o, m)
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	s.spy = []string{self, spySwitch, filepath.Join(s.dir, "spy"), "2", fmt.Sprint(delay.Milliseconds())}
	cmd, err := a.start(s)
	if err != nil {
		return false, err
	}
	late := time.AfterFunc(patience, func() { killTree(cmd.Process.Pid, true) })
	err = cmd.Run()
	if !late.Stop() || err == nil {
		return false, errors.New("the client was not killed by the spy")
	}
	close(stay)
	m.first = func(st *state) { m.had = len(st.results) }
	s.spy = nil
	if err := o.resumed(a, s, trial{byID: true}); err != nil {
		return false, err
	}
	m.mu.Lock()
	had := m.had
	m.mu.Unlock()
	return had == 2, errors.Join(s.close(), os.RemoveAll(s.dir))
}

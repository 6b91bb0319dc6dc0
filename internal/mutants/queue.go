package main

import (
	"slices"
	"sync"
)

// queue hands out mutants so that no package is tested twice at once. Tests of processes
// might find processes of another run.
type queue struct {
	mu   sync.Mutex
	free *sync.Cond
	ms   []mutant
	todo []int
	// busy is by folder.
	busy map[string]bool
}

func newQueue(ms []mutant) *queue {
	q := &queue{ms: ms, busy: map[string]bool{}}
	q.free = sync.NewCond(&q.mu)
	for i := range ms {
		q.todo = append(q.todo, i)
	}
	return q
}

// next waits for a mutant whose packages are free. ok is false if none is left.
func (q *queue) next() (i int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.todo) > 0 {
		at := slices.IndexFunc(q.todo, func(i int) bool {
			return !slices.ContainsFunc(q.ms[i].tests, func(c claim) bool { return q.busy[c.folder] })
		})
		if at >= 0 {
			i = q.todo[at]
			q.todo = slices.Delete(q.todo, at, at+1)
			q.mark(i, true)
			return i, true
		}
		q.free.Wait()
	}
	return 0, false
}

// done releases the packages of a mutant.
func (q *queue) done(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mark(i, false)
	q.free.Broadcast()
}

func (q *queue) mark(i int, busy bool) {
	for _, c := range q.ms[i].tests {
		q.busy[c.folder] = busy
	}
}

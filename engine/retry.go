package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/acode-dev/acode/session"
)

// How often a request is repeated in one process, and how long acode waits in between.
const (
	mostRetries  = 4
	firstDelay   = time.Second
	longestDelay = 2 * time.Minute
)

// retries waits before a request is repeated whose failure may pass. It returns false if
// the request is not to be repeated: for another failure, after mostRetries, and if the
// provider asks to wait longer than longestDelay.
func (t *talk) retries(ctx context.Context, cause error) (bool, error) {
	var e *session.Error
	if cause != nil && (!errors.As(cause, &e) || !e.Retryable) || t.tries >= mostRetries {
		return false, nil
	}
	// full jitter: many clients that failed at once do not come back at once
	delay := rand.N(min(firstDelay<<t.tries, longestDelay))
	if e != nil && e.Wait > 0 {
		if e.Wait > longestDelay {
			return false, nil
		}
		delay = e.Wait
	}
	t.tries++
	t.tell(session.Notice{Kind: session.NoticeWarning, Text: fmt.Sprintf("%s: no whole reply of the model; acode asks again in %s", t.it.ID, delay.Round(100*time.Millisecond))})
	return true, t.rest(ctx, delay)
}

// rest waits for d. Meanwhile it answers the requests of other processes.
func (t *talk) rest(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	tick := time.NewTicker(requestPoll)
	defer tick.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-tick.C:
		case <-ctx.Done():
		}
		if err := t.boundary(ctx); err != nil {
			return err
		}
	}
}

// asksToWait says how long the provider asks to wait; empty if it does not say.
func asksToWait(cause error) string {
	var e *session.Error
	if !errors.As(cause, &e) || e.Wait <= 0 {
		return ""
	}
	return "; it asks to wait " + e.Wait.Round(time.Second).String()
}

package syncer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (p *program) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Compare store and server: ranges, chains and blobs of every session", Args: cobra.NoArgs,
		Long: "Compare store and server, session by session: the range of events, the hash of the chain at\nthe server's mark, and the blobs of these events. The server first recomputes the chains that it\nhas not verified yet. It prints each difference, and exits 1 if there is one. Pending and pruned\nevents are no differences. Nor is a whole output that sync.output keeps on the machine that ran\nthe step.",
		RunE: func(cmd *cobra.Command, _ []string) error { return p.verify(cmd.Context()) },
	}
}

// difference is a difference between store and server.
type difference struct {
	Session session.ID `json:"session_id"`
	Message string     `json:"message"`
}

// comparison counts the compared items.
type comparison struct {
	*endpoints
	marks    map[session.ID]session.Mark
	sessions int
	events   uint64
	pending  uint64
	blobs    int
	// wholes counts outputs of which the server has only head and tail.
	wholes      int
	differences []difference
	// continued lists sessions that continue under another id; these are no differences.
	continued []difference
}

func (c *comparison) differ(id session.ID, format string, args ...any) {
	c.differences = append(c.differences, difference{id, fmt.Sprintf(format, args...)})
}

func (p *program) verify(ctx context.Context) error {
	return p.withEndpoints(ctx, "sync verify", outbox.Options{}, func(l *endpoints) error {
		c := &comparison{endpoints: l}
		if err := c.compare(ctx); err != nil {
			return outbox.Envelope(err)
		}
		return c.print(p)
	})
}

// compare asks the server for its marks and compares each lane of the store.
func (c *comparison) compare(ctx context.Context) error {
	hello, err := c.server.Hello(ctx, c.outbox.Device())
	if err != nil {
		return err
	}
	lanes, err := c.outbox.Lanes(ctx)
	if err != nil {
		return err
	}
	// Another database lacks every event. Nothing is sent to it.
	for _, lane := range lanes {
		if have := hello.Remote.String(); lane.Remote != "" && lane.Remote != have {
			return outbox.OtherDatabase(have, lane.Remote)
		}
	}
	for more := true; more; {
		var err error
		if more, err = c.server.Verify(ctx, verifyRows); err != nil {
			return err
		}
	}
	if c.marks, err = c.syncer.Marks(ctx); err != nil {
		return err
	}
	// Read again, because another process may deliver meanwhile.
	if lanes, err = c.outbox.Lanes(ctx); err != nil {
		return err
	}
	for _, lane := range lanes {
		c.sessions++
		if err := c.lane(ctx, lane); err != nil {
			return err
		}
	}
	for id := range c.marks {
		c.differ(id, "the server has a session of this device that the store does not have")
	}
	return nil
}

const (
	verifyRows = 20_000
	runEvents  = 2000
	runBytes   = 8 << 20
)

// lane compares one session.
func (c *comparison) lane(ctx context.Context, lane session.Lane) error {
	m := c.marks[lane.Session]
	delete(c.marks, lane.Session)
	c.events += m.Seq
	if lane.WentOn() {
		c.continued = append(c.continued, difference{lane.Session, lane.Reason + "; the server has another history under this id, and the history of this store as a fork"})
		return nil
	}
	if m.Seq > lane.LastSeq {
		c.differ(lane.Session, "the server has %d events and the store %d: this store is the older copy", m.Seq, lane.LastSeq)
		return nil
	}
	c.pending += lane.LastSeq - m.Seq
	if m.Seq < lane.Acked {
		c.differ(lane.Session, "the server has %d events and acknowledged %d before; the rest is delivered again", m.Seq, lane.Acked)
	}
	ours, err := c.outbox.HashAt(ctx, lane.Session, m.Seq)
	if err != nil {
		return err
	}
	if m.Seq > 0 && ours != m.Head {
		c.differ(lane.Session, "the chains differ at event %d: %s here, %s there", m.Seq, ours, m.Head)
		return nil
	}
	if m.Verified < m.Seq {
		c.differ(lane.Session, "the server could verify the chain up to event %d of %d only", m.Verified, m.Seq)
	}
	return c.checkBlobs(ctx, lane.Session, m.Seq)
}

// checkBlobs compares every blob that the events up to last name.
func (c *comparison) checkBlobs(ctx context.Context, id session.ID, last uint64) error {
	for after := uint64(0); after < last; {
		d, err := c.outbox.Delivery(ctx, id, after, int(min(runEvents, last-after)), runBytes)
		if err != nil || len(d.Events) == 0 {
			return err
		}
		after = d.Events[len(d.Events)-1].Seq
		missing, err := c.missing(ctx, c.outbox.Blobs(d))
		if err != nil {
			return err
		}
		for _, h := range missing {
			c.differ(id, "the server does not have the blob %s", h)
		}
		stay, err := c.missing(ctx, c.outbox.Wholes(d))
		if err != nil {
			return err
		}
		c.blobs -= len(stay)
		c.wholes += len(stay)
	}
	return nil
}

// missing counts blobs and returns the hashes of the blobs that are not on the server.
func (c *comparison) missing(ctx context.Context, blobs []session.BlobRef) ([]string, error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	c.blobs += len(blobs)
	hashes := make([]string, 0, len(blobs))
	for _, b := range blobs {
		hashes = append(hashes, b.Hash)
	}
	return c.server.MissingBlobs(ctx, hashes)
}

func (c *comparison) print(p *program) error {
	if p.JSON {
		if err := terminal.JSON(p.Out, map[string]any{"v": 1, "sessions": c.sessions, "events": c.events, "events_pending": c.pending, "blobs": c.blobs,
			"outputs_not_delivered": c.wholes,
			"continued":             append([]difference{}, c.continued...),
			"differences":           append([]difference{}, c.differences...)}); err != nil {
			return err
		}
	} else {
		for _, d := range c.continued {
			fmt.Fprintf(p.Out, "%s: %s\n", d.Session, terminal.Clean(d.Message))
		}
		for _, d := range c.differences {
			fmt.Fprintf(p.Err, "%s: %s\n", d.Session, terminal.Clean(d.Message))
		}
		verdict := "no difference"
		if n := len(c.differences); n > 0 {
			verdict = terminal.Plural(n, "difference")
		}
		fmt.Fprintf(p.Out, "%s, %s on the server, %d pending, %s: %s\n", terminal.Plural(c.sessions, "session"), terminal.Plural(int(c.events), "event"),
			c.pending, terminal.Plural(c.blobs, "blob"), verdict)
		if c.wholes > 0 {
			fmt.Fprintf(p.Out, "%s on the server: head and tail only; the whole output stays on the machine that ran the step\n", terminal.Plural(c.wholes, "long output"))
		}
	}
	if len(c.differences) > 0 {
		return cli.ExitAs(session.ErrSyncDiffers)
	}
	return nil
}

package syncer

import (
	"context"
	"errors"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/outbox"
	"github.com/acode-dev/acode/session"
)

func (p *program) metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "metrics", Short: "Print the metrics that the store can show", Args: cobra.NoArgs,
		Long: "Print the metrics of delivery and work from the store in the text format of Prometheus, for a\ntextfile collector. The counters of a running syncer are not included, and the histograms of\ndelivery and store are empty.",
		RunE: p.reading(p.printMetrics),
	}
}

func (p *program) printMetrics(ctx context.Context, s *app.Site) error {
	st := s.Store()
	n, err := look(ctx, s)
	if err != nil {
		return err
	}
	w, err := st.Work(ctx)
	if err != nil {
		return err
	}
	m := outbox.NewMetrics(cli.Version, runtime.Version())
	m.Watch(func() outbox.Snapshot { return n })
	m.WatchWork(func() (session.Work, error) { return w, nil })
	r := prometheus.NewRegistry()
	if err := errors.Join(r.Register(m), r.Register(newStoreMetrics(st))); err != nil {
		return err
	}
	families, err := r.Gather()
	if err != nil {
		return err
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(p.Out, f); err != nil {
			return err
		}
	}
	return nil
}

// look returns a snapshot of a store in which this process does not deliver.
func look(ctx context.Context, s *app.Site) (outbox.Snapshot, error) {
	h, lanes, backlog, err := s.Store().Sync(ctx)
	if err != nil {
		return outbox.Snapshot{}, err
	}
	if !s.Delivers() {
		h = session.Heartbeat{State: session.SyncDisabled}
	}
	total, acked, err := s.Store().Totals(ctx)
	n := outbox.Look(h, lanes, backlog, total, acked)
	n.Late = late(s, n)
	return n, err
}

// late applies the rule of status --check to the metrics.
func late(s *app.Site, n outbox.Snapshot) bool {
	return n.State() != session.SyncDisabled && session.Late(n.Backlog.OldestUS, s.Now(), s.Settings.Config.Sync.LateAfter)
}

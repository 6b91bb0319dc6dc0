package main

import (
	"context"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// beatSystemd tells systemd that the service is ready, how it stands, and that it is alive, as
// long as it is. Without systemd it does nothing.
func (d *daemon) beatSystemd(ctx context.Context) {
	if sent, err := systemd.SdNotify(false, systemd.SdNotifyReady); err != nil || !sent {
		return
	}
	defer func() { _, _ = systemd.SdNotify(false, systemd.SdNotifyStopping) }() // nobody may listen any more
	every := 10 * time.Second
	if limit, err := systemd.SdWatchdogEnabled(false); err == nil && limit > 0 {
		every = limit / 3
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n := d.syncer.Snapshot()
		state := fmt.Sprintf("STATUS=%s, %d events pending", n.State(), n.Backlog.Events)
		if d.alive() {
			state += "\n" + systemd.SdNotifyWatchdog
		}
		_, _ = systemd.SdNotify(false, state) // the next one may arrive
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

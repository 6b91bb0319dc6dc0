package syncer

import (
	"context"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/acode-dev/acode/outbox"
)

// statusEvery bounds the age of the status line of systemctl status. A change of state
// shows at once.
const statusEvery = 10 * time.Second

// tellSystemd sends a notification. Without systemd it does nothing. Errors are ignored,
// because the service works without a listener.
func tellSystemd(state string) { _, _ = systemd.SdNotify(false, state) }

// beatSystemd tells systemd that the service is ready, its status, and that it is alive.
// Without systemd it does nothing.
func (d *daemon) beatSystemd(ctx context.Context) {
	if sent, err := systemd.SdNotify(false, systemd.SdNotifyReady); err != nil || !sent {
		return
	}
	every := statusEvery
	if limit, err := systemd.SdWatchdogEnabled(false); err == nil && limit > 0 {
		every = min(every, limit/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	status := "connecting"
	for {
		state := "STATUS=" + status
		if d.alive() {
			state += "\n" + systemd.SdNotifyWatchdog
		}
		tellSystemd(state)
		select {
		case <-ctx.Done():
			return
		case <-d.turned:
		case <-tick.C:
		}
		status = statusLine(d.snapshot(ctx))
	}
}

// statusLine returns the status line for systemctl status.
func statusLine(n outbox.Snapshot) string {
	line := fmt.Sprintf("%s, %d events pending", n.State(), n.Backlog.Events)
	if !n.Leader {
		line += "; another process delivers"
	}
	return line
}

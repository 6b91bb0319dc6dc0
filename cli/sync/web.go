package syncer

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/acode-dev/acode/session"
)

func listenAt(where string) (net.Listener, error) {
	network, address := "tcp", where
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", path
		if err := removeStale(path); err != nil {
			return nil, err
		}
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	if err != nil {
		return nil, &session.Error{Code: session.ErrConfig, Message: "metrics and health cannot be served there; nothing was delivered", Place: where, Cause: err,
			Next: session.Words("set sync.listen to a free address")}
	}
	return l, nil
}

// removeStale removes a socket whose process is gone.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		// The listener reports the error.
		return nil
	}
	if c, err := net.Dial("unix", path); err == nil {
		// The listener reports that the socket is in use.
		return c.Close()
	}
	return os.Remove(path)
}

// web serves metrics and health until ctx ends.
func (d *daemon) web(ctx context.Context, l net.Listener, withProfiles bool) {
	server := &http.Server{Handler: d.handler(withProfiles), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	// Serve returns ErrServerClosed.
	_ = server.Serve(l)
}

func (d *daemon) handler(withProfiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.registry(), promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", d.healthz)
	mux.HandleFunc("GET /readyz", d.readyz)
	if withProfiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// registry holds the metrics of the syncer, of the store and of this process.
func (d *daemon) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(d.metrics, d.files, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// stuck is the age of a heartbeat from which the syncer is no longer alive.
const stuck = 60 * time.Second

// healthz reports whether the syncer still works. A server that cannot be reached does
// not matter.
func (d *daemon) healthz(w http.ResponseWriter, _ *http.Request) {
	if !d.alive() {
		http.Error(w, "the syncer has made no progress for "+stuck.String(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// alive reports whether this process delivers regularly, or leaves delivery to another
// one. Until its first heartbeat, its start counts.
func (d *daemon) alive() bool {
	n := d.syncer.Snapshot()
	seen := max(n.Heartbeat.BeatUS, n.Heartbeat.StartedUS)
	return !n.Leader || d.Now().Sub(time.UnixMicro(seen)) < stuck
}

// readyz reports whether the store can be read. It does not fail when the server cannot
// be reached.
func (d *daemon) readyz(w http.ResponseWriter, r *http.Request) {
	if _, err := d.outbox.Backlog(r.Context()); err != nil {
		http.Error(w, "the store cannot be read", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok", d.syncer.Snapshot().State())
}

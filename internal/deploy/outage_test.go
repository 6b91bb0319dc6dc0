package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// faster is the factor by which the rules run faster than in production. Scrapes are less
// frequent, because a scrape may take as long as its interval on a busy machine.
const (
	faster      = 240
	scrapeEvery = "250ms"
)

// hurry divides the durations in a text by faster.
func hurry(text string) string {
	return regexp.MustCompile(`\b\d+[smh]\b`).ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(s)
		if err != nil {
			// The pattern matches only durations.
			panic(err)
		}
		return strconv.FormatInt((d/faster).Milliseconds(), 10) + "ms"
	})
}

// hurriedRules returns alerts.yml with shorter waits and ranges.
func hurriedRules(t *testing.T) string {
	t.Helper()
	durations := regexp.MustCompile(`(?m)^ +for: .*$|\[\w+\]`)
	return durations.ReplaceAllStringFunc(read(t, "deploy", "prometheus", "alerts.yml"), hurry)
}

// fakeSyncer looks like a syncer to Prometheus. The test can change the served metrics.
type fakeSyncer struct {
	*httptest.Server
	page atomic.Pointer[string]
}

func serveSyncer(t *testing.T) *fakeSyncer {
	f := &fakeSyncer{}
	f.say(true, 0, 0)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		// A client that hung up misses the page.
		_, _ = io.WriteString(w, *f.page.Load())
	}))
	t.Cleanup(f.Close)
	return f
}

// say sets whether the server is reached, how many events are pending, and since when.
func (f *fakeSyncer) say(reached bool, pending int, oldest int64) {
	up, offline := 0, 1
	if reached {
		up, offline = 1, 0
	}
	page := fmt.Sprintf("acode_sync_remote_up %d\nacode_sync_state{state=\"offline\"} %d\nacode_sync_state{state=\"synced\"} %d\n"+
		"acode_sync_pending_events %d\nacode_sync_oldest_pending_timestamp_seconds %d\nacode_sync_late %d\n"+
		"acode_sync_parked_events 0\nacode_sync_fenced_lanes 0\nacode_sync_forked_lanes 0\nacode_store_wal_bytes 4194304\nacode_store_checkpoint_failures_total 0\n",
		up, offline, up, pending, oldest, offline)
	f.page.Store(&page)
}

// startPrometheus starts a real Prometheus with our shortened configuration and returns
// its address. It ends with the test.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "alerts.yml", hurriedRules(t))
	settings := strings.Replace(read(t, "deploy", "prometheus", "prometheus.yml"), "scrape_interval: 15s", "scrape_interval: "+scrapeEvery, 1)
	write(t, dir, "prometheus.yml", strings.Replace(settings, "evaluation_interval: 15s", "evaluation_interval: "+hurry("15s"), 1))
	write(t, dir, "targets.yml", fmt.Sprintf("- targets: [%q]\n  labels: {instance: laptop}\n", target))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program(t, "prometheus", "apt-get install prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context of the test killed it.
		_ = cmd.Wait()
		if data, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus: %s", data)
		}
		_ = log.Close()
	})
	return address
}

// firing lists the firing alerts. It returns an error while Prometheus does not answer.
func firing(ctx context.Context, address string) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/alerts", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Alerts []struct {
				Labels map[string]string `json:"labels"`
				State  string            `json:"state"`
			} `json:"alerts"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		return nil, fmt.Errorf("status %q: %w", answer.Status, err)
	}
	var out []string
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			out = append(out, a.Labels["alertname"])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// During an outage exactly its alerts fire in a real Prometheus. They end when the server
// is back, and a syncer that ends is missed.
func TestPrometheusThroughAnOutage(t *testing.T) {
	t.Parallel()
	syncer := serveSyncer(t)
	address := startPrometheus(t, strings.TrimPrefix(syncer.URL, "http://"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	seen := map[string]bool{}
	// until waits for exactly these alerts. It calls act to change the scene before each
	// look.
	until := func(scene string, act func(look int), want ...string) {
		t.Helper()
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for look := 0; ; look++ {
			act(look)
			got, err := firing(ctx, address)
			for _, name := range got {
				seen[name] = true
			}
			if err == nil && slices.Equal(got, want) && look > 0 {
				t.Logf("%s: after %v: %q fire", scene, (time.Since(began) * faster).Round(time.Minute), got)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s: %q fire (%v), want %q", scene, got, err, want)
			}
		}
	}
	until("outage", func(look int) { syncer.say(false, 10+look, 1700000000) }, "AcodeOutboxStale", "AcodeRemoteDown", "AcodeSyncLate")
	until("server is back", func(int) { syncer.say(true, 0, 0) })
	until("syncer ends", func(look int) {
		if look == 0 {
			syncer.Close()
		}
	}, "AcodeSyncerAbsent")
	if len(seen) != 4 {
		t.Errorf("fired: %v, want the four that were waited for", seen)
	}
}

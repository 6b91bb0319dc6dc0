package cli

import (
	"runtime/debug"
	"testing"
)

// A build names its sources as far as the go command recorded them.
func TestBuildNamesItsSource(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123abc"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"commit":  {debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-2026"}, Settings: []debug.BuildSetting{commit}}, "acode 1, commit 0123abc, go1 x/y"},
		"changed": {debug.BuildInfo{Settings: []debug.BuildSetting{commit, changed}}, "acode 1, commit 0123abc with changes, go1 x/y"},
		"module":  {debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "acode 1, module v0.1.0, go1 x/y"},
		"neither": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "acode 1, go1 x/y"},
	} {
		b := build{Version: "1", Go: "go1", Platform: "x/y"}
		b.source(&c.info)
		if got := b.String(); got != c.want {
			t.Errorf("%s: String: got %q, want %q", name, got, c.want)
		}
	}
}

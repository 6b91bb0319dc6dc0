package deploy_test

import (
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/config"
)

// unit is a unit file: the values of each directive, by "Section.Directive", in their
// order.
type unit map[string][]string

func readUnit(t *testing.T, kind string) unit {
	t.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(read(t, "deploy", "systemd", kind, "acode-syncer.service")) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case ok:
			u[section+"."+key] = append(u[section+"."+key], value)
		default:
			t.Errorf("%s unit: %q is no directive", kind, line)
		}
	}
	return u
}

// Both units notify systemd, have a watchdog, and restart forever unless a restart would
// only fail again.
func TestUnits(t *testing.T) {
	for kind, own := range map[string]map[string]string{
		"user":   {"Service.EnvironmentFile": "-%E/acode/syncer.env", "Install.WantedBy": "default.target"},
		"system": {"Service.EnvironmentFile": "-/etc/acode/syncer.env", "Install.WantedBy": "multi-user.target", "Service.User": "acode", "Service.StateDirectory": "acode"},
	} {
		u := readUnit(t, kind)
		want := map[string]string{
			"Unit.StartLimitIntervalSec": "0", "Service.Type": "notify", "Service.NotifyAccess": "main", "Service.WatchdogSec": "60",
			"Service.ExecStart": "/usr/local/bin/acode syncer", "Service.ExecReload": "/bin/kill -HUP $MAINPID",
			"Service.TimeoutStopSec": "10", "Service.Restart": "always", "Service.RestartPreventExitStatus": "3",
			"Service.UMask": "0077", "Service.NoNewPrivileges": "yes", "Service.MemoryDenyWriteExecute": "yes",
		}
		for key, value := range own {
			want[key] = value
		}
		for key, value := range want {
			if !slices.Equal(u[key], []string{value}) {
				t.Errorf("%s unit: %s is %q, want %q", kind, key, u[key], value)
			}
		}
	}
}

// Many systems let no user manager make a namespace. A user unit that needs one does not
// start.
func TestUserUnitNeedsNoNamespace(t *testing.T) {
	u := readUnit(t, "user")
	for _, directive := range []string{
		"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateUsers", "ProtectProc", "ProcSubset", "ProtectKernelTunables",
		"ProtectKernelModules", "ProtectControlGroups", "ReadWritePaths", "User", "CapabilityBoundingSet", "DynamicUser",
	} {
		if _, ok := u["Service."+directive]; ok {
			t.Errorf("user unit: has %s", directive)
		}
	}
}

// The syncer reads the boot id and other processes, writes its store, connects to servers
// and notices networks. The hardening must allow all of that.
func TestSystemUnitLeavesWhatIsNeeded(t *testing.T) {
	u := readUnit(t, "system")
	if got := u["Service.ProcSubset"]; !slices.Equal(got, []string{"all"}) {
		t.Errorf("ProcSubset: got %q, want all: the boot id is in /proc/sys", got)
	}
	families := strings.Join(u["Service.RestrictAddressFamilies"], " ")
	for _, family := range []string{"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} {
		if !slices.Contains(strings.Fields(families), family) {
			t.Errorf("RestrictAddressFamilies: %s lacks %s", families, family)
		}
	}
	page := read(t, "docs", "operations.md")
	if home := "/var/lib/" + u["Service.StateDirectory"][0]; !strings.Contains(page, "useradd --system --home-dir "+home+" ") {
		t.Errorf("docs/operations.md: the account's home is not %s, the one place that may be written", home)
	}
}

// acode accepts the example configuration. Its URL has TLS and no password.
func TestExampleConfiguration(t *testing.T) {
	text := read(t, "deploy", "systemd", "config.yml")
	l, err := config.Load(config.Sources{UserFile: "config.yml", UserData: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(l.Config.Sync.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, has := u.User.Password(); has || u.User.Username() == "" || u.Query().Get("sslmode") != "verify-full" {
		t.Errorf("sync.url: got %s, want a role without password, and sslmode=verify-full", u)
	}
}

// systemd itself accepts the units.
func TestSystemdVerifies(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("no systemd here: %v", err)
	}
	for kind, flag := range map[string]string{"user": "--user", "system": "--system"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			content := strings.ReplaceAll(read(t, "deploy", "systemd", kind, "acode-syncer.service"), "/usr/local/bin/acode ", "/bin/echo ")
			write(t, dir, "acode-syncer.service", content)
			write(t, dir, "wrong.service", strings.ReplaceAll(content, "Type=notify", "Type=notfy"))
			verify := func(name string) string {
				cmd := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", flag, filepath.Join(dir, name))
				cmd.Env = append(cmd.Environ(), "XDG_RUNTIME_DIR="+dir, "HOME="+dir)
				out, err := cmd.CombinedOutput()
				return fmt.Sprintf("%s%v", out, err)
			}
			// Units of the machine may be wrong too, so only complaints about ours count.
			if out := verify("acode-syncer.service"); strings.Contains(out, "acode-syncer.service") {
				t.Errorf("verify: %s", out)
			}
			if out := verify("wrong.service"); !strings.Contains(out, "wrong.service") {
				t.Errorf("verify of a wrong unit: found nothing: %s", out)
			}
		})
	}
}

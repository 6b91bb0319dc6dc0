package deploy_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acode-dev/acode/config"
)

// compose holds the keys of docker-compose.yml that the tests check. An unknown key is an
// error, so the tests find misspelt keys.
type compose struct {
	Name     string             `yaml:"name"`
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string            `yaml:"image"`
	Profiles    []string          `yaml:"profiles"`
	Build       map[string]string `yaml:"build"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	User        string            `yaml:"user"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	Healthcheck struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		Retries     int      `yaml:"retries"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	StopSignal      string   `yaml:"stop_signal"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	MemLimit        string   `yaml:"mem_limit"`
	Restart         string   `yaml:"restart"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	decode(t, &c, "docker-compose.yml")
	for _, name := range []string{"postgres", "pgbouncer", "syncer", "prometheus", "grafana"} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("docker-compose.yml: there is no service %s", name)
		}
	}
	return c
}

// A version is pinned if it names at least a minor release.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+[a-z0-9.-]*$`)

// The services use pinned images and have health checks.
func TestComposeServices(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned", name, s.Image)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: publishes %s beyond loopback", name, port)
			}
		}
		for on, how := range s.DependsOn {
			if _, ok := c.Services[on]; !ok || how.Condition != "service_healthy" {
				t.Errorf("%s: depends on %s with %q, want a service that is healthy", name, on, how.Condition)
			}
		}
		if slices.Contains(s.Profiles, "tools") {
			// The service runs once.
			continue
		}
		h := s.Healthcheck
		if len(h.Test) < 2 || h.Test[0] != "CMD" || h.Interval == "" || h.Timeout == "" || h.Retries == 0 {
			t.Errorf("%s: health check %+v is missing or endless", name, h)
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s: restart is %q, want unless-stopped", name, s.Restart)
		}
	}
	if pinned.MatchString("postgres:latest") || pinned.MatchString("postgres") || pinned.MatchString("postgres:18") {
		t.Error("pinned: accepts an image that is not")
	}
}

// Passwords come from a file outside the repository, and no service starts without them.
func TestComposePasswords(t *testing.T) {
	variable := regexp.MustCompile(`^\$\{([A-Z_]+):[?-]`)
	example := read(t, "deploy", "compose", "env.example")
	seen := 0
	for name, s := range readCompose(t).Services {
		for key, value := range s.Environment {
			if !strings.Contains(key, "PASSWORD") {
				continue
			}
			seen++
			match := variable.FindStringSubmatch(value)
			if match == nil {
				t.Errorf("%s: %s is written into the file", name, key)
			} else if !strings.Contains(example, "\n"+match[1]+"=\n") {
				t.Errorf("%s: %s is not in env.example, empty", name, match[1])
			}
		}
		if url := s.Environment["ACODE_POSTGRES_URL"]; regexp.MustCompile(`//[^@/]*:[^-][^@/]*@`).MatchString(url) {
			t.Errorf("%s: the URL holds a password: %s", name, url)
		}
	}
	if seen < 4 || !slices.Contains(strings.Fields(read(t, "deploy", "compose", ".gitignore")), ".env") {
		t.Errorf("%d passwords seen, want 4 or more, in an .env that git ignores", seen)
	}
}

// Every mounted file exists, and every named volume is declared.
func TestComposeMounts(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":/")
			if fallback := regexp.MustCompile(`^\$\{[A-Z_]+:-(.*)\}$`).FindStringSubmatch(source); fallback != nil {
				source = fallback[1]
			}
			if !strings.HasPrefix(source, "./") {
				if _, ok := c.Volumes[source]; !ok {
					t.Errorf("%s: the volume %s is not declared", name, source)
				}
			} else if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s: may write %s", name, source)
			}
		}
		if file := s.Build["dockerfile"]; file != "" {
			for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, file), -1) {
				if !pinned.MatchString(from[1]) {
					t.Errorf("%s: %s is not pinned", file, from[1])
				}
			}
		}
	}
}

// mounted returns the files of a service by their path in the container.
func (s service) mounted() map[string]string {
	out := map[string]string{}
	for _, v := range s.Volumes {
		if source, rest, ok := strings.Cut(v, ":/"); ok {
			place, _, _ := strings.Cut(rest, ":")
			out["/"+place] = source
		}
	}
	return out
}

// Prometheus in its container finds each file that its configuration names.
func TestPrometheusFindsItsFiles(t *testing.T) {
	mounts := readCompose(t).Services["prometheus"].mounted()
	named := regexp.MustCompile(`\b\w+\.yml\b`).FindAllString(regexp.MustCompile(`#.*`).ReplaceAllString(read(t, "deploy", "prometheus", "prometheus.yml"), ""), -1)
	if len(named) < 2 {
		t.Fatalf("prometheus.yml names %q, want rules and targets", named)
	}
	for _, name := range named {
		if mounts["/etc/prometheus/"+name] == "" {
			t.Errorf("docker-compose.yml: Prometheus does not get %s", name)
		}
		if _, err := os.Stat(filepath.Join(root, "deploy", "prometheus", name)); err != nil {
			t.Error(err)
		}
	}
}

// Grafana finds the dashboard at its provider's path, and its data source points at
// Prometheus.
func TestGrafanaFindsItsFiles(t *testing.T) {
	var providers struct {
		Providers []struct {
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	var sources struct {
		Datasources []struct {
			Type, URL, UID string
		} `yaml:"datasources"`
	}
	loose(t, &providers, "deploy", "grafana", "provisioning", "dashboards", "acode.yml")
	loose(t, &sources, "deploy", "grafana", "provisioning", "datasources", "prometheus.yml")
	c := readCompose(t)
	if len(providers.Providers) != 1 || c.Services["grafana"].mounted()[path.Join(providers.Providers[0].Options.Path, "acode.json")] == "" {
		t.Errorf("dashboards: %+v is not where docker-compose.yml puts acode.json", providers)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].URL != "http://prometheus:9090" || sources.Datasources[0].Type != "prometheus" {
		t.Errorf("datasources: got %+v, want the service prometheus", sources)
	}
}

// Prometheus scrapes the address of the syncer, by default and in its container.
func TestTargets(t *testing.T) {
	var schema struct {
		Properties struct {
			Sync struct {
				Properties struct {
					Listen struct {
						Default string `json:"default"`
					} `json:"listen"`
				} `json:"properties"`
			} `json:"sync"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	listen := schema.Properties.Sync.Properties.Listen.Default
	for file, want := range map[string]string{"prometheus": listen, "compose": "syncer:9464"} {
		var list []struct {
			Targets []string          `yaml:"targets"`
			Labels  map[string]string `yaml:"labels"`
		}
		decode(t, &list, "deploy", file, "targets.yml")
		if len(list) != 1 || !slices.Equal(list[0].Targets, []string{want}) || list[0].Labels["instance"] == "" {
			t.Errorf("%s/targets.yml: got %+v, want %s with the label instance", file, list, want)
		}
	}
}

// acode accepts the configuration of the containers.
func TestContainerConfiguration(t *testing.T) {
	l, err := config.Load(config.Sources{UserFile: "config.yml", UserData: []byte(read(t, "deploy", "compose", "config.yml"))})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Config.Sync; !s.AllowPlaintext || s.Listen != "0.0.0.0:9464" {
		t.Errorf("config.yml: got %+v, want plain text within the network of containers, and metrics for Prometheus", s)
	}
}

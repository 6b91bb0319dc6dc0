package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
)

// system lists the directories of the system that commands may read.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew"}

// resolver has the configuration of the resolver where /etc only links to it.
const resolver = "/run/systemd/resolve"

// toolchain is a directory of tools outside the system directories.
type toolchain struct {
	// variable names the directory; empty if none does.
	variable string
	// home is the usual place below the home directory.
	home string
	// parts are the directories that commands may read; empty means all.
	parts []string
	// cache says that the tools write there if they may use the network. They get a
	// private directory then.
	cache bool
}

var toolchains = []toolchain{
	{variable: "GOROOT"},
	{variable: "GOMODCACHE", home: "go/pkg/mod", cache: true},
	{home: "sdk"},
	// not the credentials
	{variable: "CARGO_HOME", home: ".cargo", parts: []string{"bin", "registry", "git", "env", "config.toml"}, cache: true},
	{variable: "RUSTUP_HOME", home: ".rustup"},
	{variable: "NVM_DIR", home: ".nvm", parts: []string{"versions", "nvm.sh", "alias"}},
	{variable: "VOLTA_HOME", home: ".volta", parts: []string{"bin", "tools"}},
	{variable: "BUN_INSTALL", home: ".bun", parts: []string{"bin"}},
	{variable: "DENO_INSTALL", home: ".deno", parts: []string{"bin"}},
	{home: ".npm-global"},
	{variable: "PYENV_ROOT", home: ".pyenv"},
	{variable: "PYTHONUSERBASE", home: ".local", parts: []string{"bin", "lib", "pipx/venvs", "share/pipx/venvs", "share/uv"}},
	{variable: "RBENV_ROOT", home: ".rbenv"},
	{variable: "ASDF_DATA_DIR", home: ".asdf"},
	{variable: "MISE_DATA_DIR", home: ".local/share/mise", parts: []string{"installs", "shims"}},
	{variable: "SDKMAN_DIR", home: ".sdkman", parts: []string{"candidates"}},
	{variable: "JAVA_HOME"},
	{variable: "VIRTUAL_ENV"},
}

// passed lists the variables of the environment that reach a confined command, beside
// those that begin with LC_.
var passed = []string{
	"PATH", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ", "USER", "LOGNAME", "SHELL", "CI", "SOURCE_DATE_EPOCH",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	"GOROOT", "GOFLAGS", "GOTOOLCHAIN", "GOOS", "GOARCH", "GOMAXPROCS", "GOEXPERIMENT", "CGO_ENABLED",
	"CC", "CXX", "AR", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "PKG_CONFIG_PATH",
	"RUSTFLAGS", "NODE_ENV", "JAVA_HOME", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// proxies are passed too if a command may use the network, and they hold no password.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"}

// Place is the environment in which a profile is made.
type Place struct {
	Getenv func(string) string
	// Home is the home directory of the person; empty if there is none.
	Home string
	// State is the directory of acode's state.
	State string
	// Network says that the command may use the network.
	Network bool
}

// Readable returns the paths that commands may read: system directories, toolchains and
// the directories in PATH. It leaves out each path that contains the home directory or
// the state.
func (p Place) Readable() []string {
	out := slices.Clone(system)
	if p.Network {
		out = append(out, resolver)
	}
	for _, t := range toolchains {
		dir := p.at(t)
		if dir == "" {
			continue
		}
		for _, part := range t.parts {
			out = append(out, filepath.Join(dir, part))
		}
		if len(t.parts) == 0 {
			out = append(out, dir)
		}
	}
	for _, dir := range filepath.SplitList(p.Getenv("PATH")) {
		out = append(out, dir)
		if filepath.Base(dir) == "bin" {
			for _, beside := range []string{"lib", "libexec", "include", "pyvenv.cfg"} {
				out = append(out, filepath.Join(filepath.Dir(dir), beside))
			}
		}
	}
	for i := range out {
		out[i] = filepath.Clean(out[i])
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(path string) bool {
		return !filepath.IsAbs(path) || path == "/" || p.Home != "" && Within(p.Home, path) || Within(p.State, path) || Within(path, p.State)
	})
}

// at returns the directory of t; empty if there is none.
func (p Place) at(t toolchain) string {
	if t.variable != "" {
		if dir := p.Getenv(t.variable); filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
	}
	if t.home == "" || p.Home == "" {
		return ""
	}
	if t.variable == "GOMODCACHE" {
		if list := filepath.SplitList(p.Getenv("GOPATH")); len(list) > 0 && filepath.IsAbs(list[0]) {
			return filepath.Join(list[0], "pkg", "mod")
		}
	}
	return filepath.Join(p.Home, t.home)
}

// Environ returns the variables of environ that reach a confined command.
func (p Place) Environ(environ []string) []string {
	var out []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		proxy := p.Network && slices.Contains(proxies, name) && !strings.Contains(value, "@")
		if strings.HasPrefix(name, "LC_") || slices.Contains(passed, name) || proxy {
			out = append(out, kv)
		}
	}
	return out
}

// Own returns variables for a command with profile q: private directories, and the places
// of toolchains that the command would look for in the home directory. exists reports
// whether a directory exists.
func (p Place) Own(q Profile, exists func(string) bool) []string {
	out := []string{"HOME=" + q.Home, "TMPDIR=" + q.TempDir()}
	for _, t := range toolchains {
		if dir := p.at(t); t.variable != "" && t.home != "" && dir != "" && !(t.cache && p.Network) && exists(dir) {
			out = append(out, t.variable+"="+dir)
		}
	}
	return out
}

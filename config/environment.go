package config

import (
	"fmt"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/acode-dev/acode/session"
)

const variablePrefix = "ACODE_"

// environment converts the result of os.Environ to a map. It ignores empty variables.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, v, ok := strings.Cut(kv, "="); ok && v != "" {
			env[name] = v
		}
	}
	return env
}

// environment reads the layer of variables. The name of a variable is ACODE_ and the path
// of its key in capitals; the exceptions are ACODE_HOME, ACODE_POSTGRES_URL and NO_COLOR.
func (l *loader) environment(getenv func(string) string) error {
	for _, k := range l.keys {
		name := k.variable()
		text := getenv(name)
		if text == "" && k.path == "terminal.color" && getenv("NO_COLOR") != "" {
			name, text = "NO_COLOR", "never"
		}
		if text == "" {
			continue
		}
		v, err := k.parse(text, l.home)
		if err != nil {
			return &session.Error{Code: session.ErrConfig, Message: name + " " + err.Error(), Place: "environment " + name,
				Next: session.Words("set it to " + k.wants() + ", or unset it")}
		}
		l.put(k, v, "environment "+name, layerEnvironment)
	}
	return nil
}

// unknownVariables warns about variables with acode's prefix and an unknown name.
// Otherwise acode would silently ignore a misspelt variable.
func unknownVariables(env map[string]string, all []key) []string {
	known := []string{"ACODE_CONFIG", "ACODE_CHECKPOINT_SECRET", "ACODE_IDEMPOTENCY_KEY"}
	for _, k := range all {
		known = append(known, k.variable())
	}
	var out []string
	for name := range env {
		if !strings.HasPrefix(name, variablePrefix) || strings.HasPrefix(name, "ACODE_TEST_") || slices.Contains(known, name) {
			continue
		}
		line := fmt.Sprintf("environment %s: no such setting", name)
		if near := nearest(name, known); near != "" {
			line += "; did you mean " + near + "?"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// UserFile returns the path of the user's file: $ACODE_CONFIG, or config.yml in acode's
// folder of the XDG configuration directory.
func UserFile(getenv func(string) string) string {
	if name := getenv("ACODE_CONFIG"); name != "" {
		return name
	}
	return filepath.Join(baseDir(getenv, "XDG_CONFIG_HOME", ".config"), "acode", "config.yml")
}

// Home returns the default directory of the store: $ACODE_HOME, or acode's folder of the
// XDG state directory.
func Home(getenv func(string) string) string {
	if dir := getenv("ACODE_HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(baseDir(getenv, "XDG_STATE_HOME", filepath.Join(".local", "state")), "acode")
}

// UserDir returns $HOME. If HOME is not set, as in many services, it returns the
// directory of the account, or "" if there is none.
func UserDir(getenv func(string) string) string {
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Clean(home)
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return filepath.Clean(u.HomeDir)
	}
	return ""
}

// baseDir returns one of the XDG directories. It ignores a relative path in the variable,
// as the specification demands. macOS has one directory of its own for all of them.
func baseDir(getenv func(string) string, variable, below string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	if runtime.GOOS == "darwin" {
		below = filepath.Join("Library", "Application Support")
	}
	return filepath.Join(UserDir(getenv), below)
}

// nearest returns the most similar of names, or "" if none is similar to s.
func nearest(s string, names []string) string {
	best, least := "", max(len(s)/3, 1)+1
	for _, n := range names {
		if d := distance(s, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// planFile is where the plan of file can be looked at again later; empty for a pipe and the like.
func planFile(file string) string {
	info, err := os.Stat(file)
	if file == "-" || err != nil || !info.Mode().IsRegular() || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") {
		return ""
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	return abs
}

// edited reports whether file holds another plan than p by now. What cannot be looked at is none.
func edited(file string, p *session.Plan) bool {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || plan.Large(info.Size()) {
		return false
	}
	now, err := plan.Load(file)
	return err != nil || !samePlan(now, p)
}

func samePlan(a, b *session.Plan) bool {
	plain := *b
	plain.Secrets = nil // which the store adds
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(plain)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

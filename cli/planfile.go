package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/plan"
	"github.com/acode-dev/acode/session"
)

// input returns the path of a file that a person named; - is standard input.
func input(file string) string {
	if file == "-" {
		return "/dev/stdin"
	}
	return file
}

// planSource returns the place where the plan of file can be read again. It is zero for a
// pipe, a device and standard input.
func planSource(file string) app.PlanSource {
	info, err := os.Stat(file)
	if file == "-" || err != nil || !info.Mode().IsRegular() || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/") {
		return app.PlanSource{}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return app.PlanSource{}
	}
	return app.PlanSource{File: abs, Sum: sumOf(abs)}
}

// sumOf returns the SHA-256 of a file in hex; empty when it cannot be read.
func sumOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// edited reports whether the file now holds another plan than p. It returns false when
// the file cannot be read. A large file with another sum counts as edited without being
// loaded, because that takes seconds.
func edited(from app.PlanSource, p *session.Plan) bool {
	info, err := os.Stat(from.File)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if sum := sumOf(from.File); sum == "" || sum == from.Sum {
		return false
	}
	if plan.Large(info.Size()) {
		return true
	}
	now, err := plan.Load(from.File)
	if err == nil {
		// The session may have started with another limit than its plan has.
		now.MaxParallel = p.MaxParallel
	}
	return err != nil || !samePlan(now, p)
}

func samePlan(a, b *session.Plan) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

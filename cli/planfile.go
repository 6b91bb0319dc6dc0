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

// input is the path of a file that is named; - is standard input.
func input(file string) string {
	if file == "-" {
		return "/dev/stdin"
	}
	return file
}

// planSource is where the plan of file can be looked at again later; no file for a pipe
// and the like.
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

// sumOf gives the SHA-256 of a file in hex; empty where it cannot be read.
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

// edited reports whether the file holds another plan than p by now. What cannot be looked
// at is none. A large one is not read as a plan again: that takes seconds.
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
		now.MaxParallel = p.MaxParallel // a session may have got another one when it started
	}
	return err != nil || !samePlan(now, p)
}

func samePlan(a, b *session.Plan) bool {
	x, xerr := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return xerr == nil && yerr == nil && bytes.Equal(x, y)
}

package workspace

import (
	"bytes"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Suspicion is an added line that looks like an attack (Threat 3). It is a warning, never
// a verdict.
type Suspicion struct {
	// in the new content, from 1
	Line int
	// as in Threat 3; the first of several
	Pattern string
	// of the line, at most 200 bytes, valid UTF-8
	Text string
}

const (
	// bytes of a line that are shown
	maxSuspicious = 200
	// bytes above which a diff would take too long
	maxDiff = 8 << 20
)

// suspicious lists the patterns of Threat 3.
func suspicious() []string {
	return []string{"eval(", "exec(", "subprocess.call(", "os.system(", "rm -rf", "curl http://", "wget http://"}
}

// Suspicious looks for the patterns of Threat 3 in the lines that changed adds to old,
// upper and lower case alike. A line that old holds as often as changed does is not
// added, wherever it stands.
func Suspicious(old, changed []byte) []Suspicion {
	had := map[string]int{}
	for line := range bytes.SplitSeq(old, []byte("\n")) {
		had[string(line)]++
	}
	var found []Suspicion
	number := 0
	for line := range bytes.SplitSeq(changed, []byte("\n")) {
		number++
		if had[string(line)]--; had[string(line)] >= 0 {
			continue
		}
		lower := strings.ToLower(string(line))
		for _, p := range suspicious() {
			if strings.Contains(lower, p) {
				found = append(found, Suspicion{Line: number, Pattern: p, Text: shown(line)})
				break
			}
		}
	}
	return found
}

func shown(line []byte) string {
	line = bytes.TrimSpace(line)
	return strings.ToValidUTF8(string(line[:min(len(line), maxSuspicious)]), "")
}

// Diff gives the unified difference of two contents of path, for people. It is empty when
// they are equal, when either is binary, and when either is above 8 MiB.
func Diff(old, changed []byte, path string) string {
	if isBinary(old) || isBinary(changed) || max(len(old), len(changed)) > maxDiff {
		return ""
	}
	return udiff.Unified("a/"+path, "b/"+path, string(old), string(changed))
}

// isBinary reports whether a NUL stands where searches look for one.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), sniff)], 0) >= 0 }

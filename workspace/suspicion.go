package workspace

import (
	"bytes"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Suspicion is an added line that looks like an attack (Threat 3). It is a warning
// only.
type Suspicion struct {
	// Line is the number of the line in the new content, from 1.
	Line int
	// Pattern is the first pattern of Threat 3 that the line has.
	Pattern string
	// Text is the start of the line, at most 200 bytes of valid UTF-8.
	Text string
}

const (
	// maxSuspicious is the number of bytes of a line that are shown.
	maxSuspicious = 200
	// maxDiff is the size in bytes above which a diff would take too long.
	maxDiff = 8 << 20
)

// suspicious returns the patterns of Threat 3.
func suspicious() []string {
	return []string{"eval(", "exec(", "subprocess.call(", "os.system(", "rm -rf", "curl http://", "wget http://"}
}

// Suspicious looks for the patterns of Threat 3, in upper and lower case, in the lines
// that changed adds to old. A line that old has as often as changed is not added, even
// if it moved.
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

// Diff returns the unified difference of two contents of path, for people. It returns
// "" if they are equal, or if one of them is binary or above 8 MiB.
func Diff(old, changed []byte, path string) string {
	if isBinary(old) || isBinary(changed) || max(len(old), len(changed)) > maxDiff {
		return ""
	}
	return udiff.Unified("a/"+path, "b/"+path, string(old), string(changed))
}

// isBinary reports whether the start of b, as far as searches look, has a NUL.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), sniff)], 0) >= 0 }

package scene

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/internal/torture/model"
)

// noted is the content of a receipt about reads, searches and captures.
type noted struct {
	// files holds SHA-256 in hex by path.
	files map[string]string
	// text is the SHA-256 of the matches of a search, in hex.
	text string
	// value is the SHA-256 of the captured value in hex; empty if it was sealed.
	value string
	// bytes is the length of the captured value, or -1 without one.
	bytes int
}

// notedQuery reads the reads, searches and captures of all receipts.
const notedQuery = `CREATE TEMP TABLE receipts AS SELECT json_extract(payload, '$.task') || '/' || json_extract(payload, '$.step') AS step, payload
	FROM events WHERE type = 'StepCompleted' AND json_extract(payload, '$.step') IS NOT NULL
	AND session IN (SELECT no FROM sessions WHERE task = '` + model.Title + `');
SELECT 'file', step, json_extract(f.value, '$.path'), json_extract(f.value, '$.hash') FROM receipts, json_each(payload, '$.files') f;
SELECT 'text', step, hex(coalesce(json_extract(payload, '$.matches.text'), '')), coalesce(json_extract(payload, '$.matches.blob.hash'), '') FROM receipts;
SELECT 'value', step, json_extract(payload, '$.capture.blob.bytes'),
	iif(json_extract(payload, '$.capture.blob.sealed'), '', json_extract(payload, '$.capture.blob.hash'))
	FROM receipts WHERE json_extract(payload, '$.capture.name') IS NOT NULL;`

// notes reads the receipts by step.
func (p Place) notes(ctx context.Context) (map[string]*noted, error) {
	out, err := p.Query(ctx, notedQuery)
	all := map[string]*noted{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			continue
		}
		n := all[f[1]]
		if n == nil {
			n = &noted{files: map[string]string{}, bytes: -1}
			all[f[1]] = n
		}
		switch f[0] {
		case "file":
			n.files[f[2]] = f[3]
		case "text":
			if n.text = f[3]; n.text == "" {
				// hex() returns only hex digits.
				raw, _ := hex.DecodeString(f[2])
				n.text = sum(raw)
			}
		case "value":
			n.value = f[3]
			// The empty value has no length and gives 0.
			n.bytes, _ = strconv.Atoi(f[2])
		}
	}
	return all, err
}

// CompareReceipts compares the receipts of reads, searches and captures with the truth.
// The truth is the result of sha256sum and grep on the workspace at that step, and the
// whole output of the command. If a person changed files, only captures count, because
// the plan does not know the content.
func (c *Case) CompareReceipts(ctx context.Context, changed bool) error {
	notes, err := c.notes(ctx)
	if err != nil {
		return err
	}
	states := c.States()
	for i, s := range c.Steps {
		n := notes[s.Name()]
		switch {
		case n == nil:
		case s.Captures && (n.bytes != len(s.Value) || n.value != "" && n.value != sum([]byte(s.Value))):
			c.Breach("%s captured %d bytes that differ from its command's output", s.Name(), n.bytes)
		case s.Looks != nil && !changed:
			err = errors.Join(err, c.compareLook(ctx, s, states[i], n))
		}
	}
	return err
}

// compareLook compares one receipt with the results of the tools in the former workspace.
func (c *Case) compareLook(ctx context.Context, s model.Step, was model.Tree, n *noted) error {
	dir, err := os.MkdirTemp("", "torture-look-")
	if err != nil {
		return fmt.Errorf("look again: %w", err)
	}
	defer os.RemoveAll(dir)
	for name, f := range was {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(f.Data), 0o600)); err != nil {
			return fmt.Errorf("look again: %w", err)
		}
	}
	if s.Looks.Glob != "" {
		want, err := sums(ctx, dir, "shopt -s globstar dotglob nullglob; for f in "+s.Looks.Glob+`; do [ ! -f "$f" ] || printf '%s\0' "$f"; done`)
		if err == nil && !maps.Equal(n.files, want) {
			c.Breach("%s read %v, sha256sum says %v", s.Name(), n.files, want)
		}
		return err
	}
	text, names, err := grep(ctx, dir, *s.Looks, was)
	if err != nil {
		return err
	}
	all, err := sums(ctx, dir, "find . -type f -printf '%P\\0'")
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(names, name) })
	if err == nil && !maps.Equal(n.files, all) {
		c.Breach("%s found %v, grep says %v", s.Name(), n.files, all)
	}
	if secret := strings.Contains(text, "password"); !secret && n.text != sum([]byte(text)) {
		c.Breach("%s found other lines than grep", s.Name())
	}
	return err
}

// sums returns the SHA-256 of the files that a bash script lists in dir.
func sums(ctx context.Context, dir, script string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-c", "{ "+script+"; } | xargs -0r sha256sum -z --")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run sha256sum: %w", err)
	}
	all := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if hash, name, ok := strings.Cut(line, "  "); ok {
			all[name] = hash
		}
	}
	return all, nil
}

// Limits of the output of a search, from the guide.
const (
	shownMatches = 64 << 10
	shownLine    = 400
	binaryHead   = 8 << 10
)

// grep returns the matching lines in the format of a search, and the files that hold
// them.
func grep(ctx context.Context, dir string, l model.Look, was model.Tree) (text string, names []string, err error) {
	args := []string{"-anHZP", "--", strings.ReplaceAll(l.Pattern, "$", `\r*$`)}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		head := was[name].Data
		below := l.Path == "." || strings.HasPrefix(name, l.Path+"/")
		if below && !strings.Contains(head[:min(len(head), binaryHead)], "\x00") {
			args = append(args, name)
		}
	}
	if len(args) == 3 {
		return "", nil, nil
	}
	cmd := exec.CommandContext(ctx, "grep", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return "", nil, fmt.Errorf("run grep: %w", err)
	}
	for m := range bytes.Lines(out) {
		f := found.FindSubmatch(bytes.TrimRight(m, "\r\n"))
		if f == nil {
			return "", nil, fmt.Errorf("run grep: it says %q", m)
		}
		if name := string(f[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
		line := strings.ToValidUTF8(fmt.Sprintf("%s:%s: %s\n", f[1], f[2], f[3][:min(len(f[3]), shownLine)]), "\ufffd")
		if len(text)+len(line) > shownMatches {
			break
		}
		text += line
	}
	return text, names, nil
}

// found matches a line of grep -nZ: name, number and text.
var found = regexp.MustCompile(`(?s)^([^\x00]+)\x00([0-9]+):(.*)$`)

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

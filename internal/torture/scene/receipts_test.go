package scene_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acode-dev/acode/internal/torture/model"
	"github.com/acode-dev/acode/internal/torture/scene"
)

// A receipt is a breach if it names other files, bytes or lines than sha256sum and grep
// find, or if a captured value is not whole.
func TestReceiptsAreComparedWithTheTruth(t *testing.T) {
	p := model.Fixed()
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	file := func(name, text string) map[string]any { return map[string]any{"path": name, "hash": hash(text)} }
	whole := p.Steps[4].Value
	tests := map[string]struct {
		payload map[string]any
		step    int
		wrong   int
	}{
		"read":          {map[string]any{"files": []any{file("src/main.go", p.Before["src/main.go"].Data), file("src/deep/other.go", p.Before["src/deep/other.go"].Data)}}, 0, 0},
		"passed_over":   {map[string]any{"files": []any{file("src/main.go", p.Before["src/main.go"].Data)}}, 0, 1},
		"other_bytes":   {map[string]any{"files": []any{file("src/main.go", ""), file("src/deep/other.go", p.Before["src/deep/other.go"].Data)}}, 0, 1},
		"found":         {map[string]any{"files": []any{file("src/main.go", p.Before["src/main.go"].Data)}, "matches": map[string]any{"text": "src/main.go:3: // TODO: everything\n"}}, 1, 0},
		"other_line":    {map[string]any{"files": []any{file("src/main.go", p.Before["src/main.go"].Data)}, "matches": map[string]any{"text": "src/main.go:4: // TODO: everything\n"}}, 1, 1},
		"found_nothing": {map[string]any{"matches": map[string]any{"text": ""}}, 1, 2},
		"captured":      {map[string]any{"capture": map[string]any{"name": "X", "blob": map[string]any{"hash": hash(whole), "bytes": len(whole)}}}, 4, 0},
		"torn":          {map[string]any{"capture": map[string]any{"name": "X", "blob": map[string]any{"hash": hash(whole[:3]), "bytes": 3}}}, 4, 1},
		"sealed":        {map[string]any{"capture": map[string]any{"name": "X", "blob": map[string]any{"hash": "unknown", "bytes": len(whole), "sealed": true}}}, 4, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := scene.Case{Place: scene.Place{Root: t.TempDir(), Plan: p}}
			task, step, _ := strings.Cut(p.Steps[tt.step].Name(), "/")
			tt.payload["task"], tt.payload["step"] = task, step
			payload, err := json.Marshal(tt.payload)
			if err := errors.Join(err, os.MkdirAll(c.Home(), 0o755)); err != nil {
				t.Fatal(err)
			}
			sql := fmt.Sprintf("CREATE TABLE sessions (no, task); INSERT INTO sessions VALUES (1, '%s'); CREATE TABLE events (session, type, payload); INSERT INTO events VALUES (1, 'StepCompleted', '%s');",
				model.Title, payload)
			if out, err := exec.Command("sqlite3", filepath.Join(c.Home(), "acode.db"), sql).CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			if err := c.CompareReceipts(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			if len(c.Wrong) != tt.wrong {
				t.Errorf("CompareReceipts: got %q, want %d of them", c.Wrong, tt.wrong)
			}
		})
	}
}

package subtree

import "path/filepath"

// Within reports whether path is dir or lies below it. It looks at the names only.
func Within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Resolved returns path without symbolic links, as far as path exists.
func Resolved(path string) string {
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil || dir == filepath.Dir(dir) {
			return filepath.Join(real, rest)
		}
	}
}

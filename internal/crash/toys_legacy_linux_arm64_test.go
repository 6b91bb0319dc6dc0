package crash_test

import (
	"os"
	"path/filepath"
)

// toyLegacy makes no older calls, because this architecture has none.
func toyLegacy(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o700) }

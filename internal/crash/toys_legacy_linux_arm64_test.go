package crash_test

import (
	"os"
	"path/filepath"
)

// toyLegacy has no older calls to make here.
func toyLegacy(dir string) error { return os.Mkdir(filepath.Join(dir, "d"), 0o700) }

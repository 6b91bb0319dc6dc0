package cli

import (
	_ "embed" // for the files
	"path/filepath"
)

//go:embed start/plan.yml
var startPlan string

//go:embed start/config.yml
var startConfig string

// startFile is a file that init writes.
type startFile struct{ path, content, about string }

func startFiles() []startFile {
	return []startFile{
		{"plan.yml", startPlan, "an example plan; edit it"},
		{filepath.Join(".agent", "config.yml"), startConfig, "the project's configuration; all values are the defaults"},
	}
}

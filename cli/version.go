package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version and the commit that acode was built from", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		b := build{V: 1, Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			b.source(info)
		}
		if i.JSON {
			return terminal.JSON(i.Out, b)
		}
		_, err := fmt.Fprintln(i.Out, b)
		return err
	}}
}

// build describes the build of acode.
type build struct {
	V       int    `json:"v"`
	Version string `json:"version"`
	// Commit is empty when the build knows none.
	Commit string `json:"commit"`
	// Modified is set when the sources differed from those of the commit.
	Modified bool `json:"modified"`
	// Module is the version that go install used, when Commit is empty.
	Module   string `json:"module"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// source fills in the sources of the program, which the go command records in it.
func (b *build) source(info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Commit == "" && info.Main.Version != "(devel)" {
		b.Module = info.Main.Version
	}
}

// String returns the build for people.
func (b build) String() string {
	text := "acode " + b.Version
	switch {
	case b.Commit != "" && b.Modified:
		text += ", commit " + b.Commit + " with changes"
	case b.Commit != "":
		text += ", commit " + b.Commit
	case b.Module != "":
		text += ", module " + b.Module
	}
	return text + ", " + b.Go + " " + b.Platform
}

package cli

import (
	"os"
	"strings"

	"github.com/acode-dev/acode/config"
	"github.com/acode-dev/acode/redact"
)

// refusedEarly logs an attempt to resume that ended before its store was open: its configuration, workspace,
// store or key was refused (NFR-014). It makes no store, and a log that cannot be written changes nothing.
func (a *app) refusedEarly(ref string, err error) {
	b, berr := a.bootIn("", nil)
	if berr != nil { // the configuration is what was refused: the log is where it is without one
		cfg, cerr := config.Load(config.Sources{Getenv: func(name string) string {
			if strings.HasPrefix(name, "ACODE_") && name != "ACODE_HOME" {
				return ""
			}
			return a.getenv(name)
		}})
		if cerr != nil {
			return
		}
		b = &base{app: a, cfg: cfg, redactor: redact.New(redact.FromEnvironment(os.Environ()))}
	}
	if info, serr := os.Stat(b.home()); serr != nil || !info.IsDir() || b.logging() != nil {
		return
	}
	b.refused(ref, err)
	_ = b.closeLog() // the record is written
}

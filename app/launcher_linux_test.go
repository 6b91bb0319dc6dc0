package app

import "github.com/acode-dev/acode/internal/crash"

// launcher makes this process the launcher of a traced program if its arguments say so.
func launcher() { crash.LauncherMain() }

package main_test

import "github.com/acode-dev/acode/internal/crash"

// launcher makes this process the one that becomes a traced program, when it is asked to.
func launcher() { crash.LauncherMain() }

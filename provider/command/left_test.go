package command_test

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acode-dev/acode/provider/command"
)

// killLeft ends the processes that records list as left.
func killLeft(t *testing.T, s *stage) {
	t.Helper()
	recs, err := command.Records(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		for _, l := range rec.Left {
			pid, _ := strconv.Atoi(strings.Fields(l)[0])
			if pid > 1 && running(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

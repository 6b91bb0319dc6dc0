// Command drain tests the delivery of sessions to PostgreSQL under faults, and judges the
// end.
//
// It cuts connections after every byte, in both directions and for both ways of delivery.
// It kills acode-sync at its durable and network calls, and PostgreSQL while it works. It
// cuts the power of the store's disk. It fills the server's disk, takes its connections
// away, locks its rows and sets its timeouts to almost nothing. It restores servers and
// stores from older copies, and delivers content that databases refuse. These invariants
// must hold at the end of each trial:
//
//	N1  Events on the server are the events of the journal, each once, byte for byte.
//	N2  The chain, recomputed from the description of the format, is whole; the head
//	    matches it.
//	N3  The mark in the store equals the server's progress, and was never above it.
//	N4  There are no strays: no forks, no incomplete blobs.
//	N5  An outage uses no attempt and is shown by its name, and the oldest event ages
//	    meanwhile.
//
// The judge observes from outside acode: it counts rows with psql, reads copies of the
// store with sqlite3, and computes hashes itself. Every series must fail for a syncer
// that does nothing, and the judge must find each mistake planted on purpose.
//
// The tests of this package are the trials; an ordinary run takes a sample. This command
// runs the long form: it sets the variables that the environment leaves open and starts
// go test.
//
//	ACODE_DRAIN_CUTS=all|N     cut after every byte of each way, or at N of them; 3000
//	                           is the long form
//	ACODE_DRAIN_KILLS=all|N    kill at every call, or at N of them
//	ACODE_DRAIN_CRASHES=N      crashes of a server after an acknowledgement
//	ACODE_DRAIN_DISKS=N        sessions on each real file system whose power is cut
//	ACODE_DRAIN_SEED=N         seed of all random choices
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

// run starts the tests in their long form.
func run() error {
	for name, value := range map[string]string{"ACODE_DRAIN_CUTS": "3000", "ACODE_DRAIN_KILLS": "all", "ACODE_DRAIN_CRASHES": "30", "ACODE_DRAIN_DISKS": "20"} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	args := append([]string{"test", "-count=1", "-v", "-timeout", "3h"}, os.Args[1:]...)
	cmd := exec.Command("go", append(args, "github.com/acode-dev/acode/internal/drain")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// Command drain tortures the delivery of sessions to PostgreSQL, and judges where it ends.
//
// It cuts connections after every byte, in both directions and for both ways of delivery; it
// kills acode-sync at its durable and network calls, and PostgreSQL in the middle of work; it cuts
// the power of the disk on which the store lies; it fills the server's disk, takes its connections
// away, locks its rows and sets its clocks of patience to nothing; it restores servers and stores
// from older copies; and it delivers what databases choke on. What must hold at the end of each trial:
//
//	N1  Events on the server are the events of the journal, each once, byte for byte.
//	N2  The chain, computed anew from the description of the format, is whole; the head is it.
//	N3  The mark that the store keeps is what the server has, and never was above it.
//	N4  Nothing lies where it should not: no forks, no blobs in halves.
//	N5  An outage consumes no attempt, is shown by its name, and the oldest event ages meanwhile.
//
// The judge never asks acode: it counts rows with psql, reads copies of the store with
// sqlite3, and computes hashes itself. Every series must fail for a syncer that does nothing,
// and mistakes that are planted on purpose must each be found.
//
// The tests of this package are the torture; a plain run of them takes a sample. This command
// runs the long form: it sets what the environment leaves open and starts go test.
//
//	ACODE_DRAIN_CUTS=all|N     cut after every byte of each way, or at N of them; 3000 is the long form
//	ACODE_DRAIN_KILLS=all|N    kill at every call, or at N of them
//	ACODE_DRAIN_CRASHES=N      crashes of a server that acknowledged
//	ACODE_DRAIN_DISKS=N        sessions on each real file system whose power is cut
//	ACODE_DRAIN_SEED=N         of all that is chosen at random
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

package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// BootID names this run of the machine. The time at which it began would not do: the system counts it
// back from the clock, so that whoever sets the clock moves it.
func BootID() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("ask which start of the machine this is: %w", err)
	}
	return id, nil
}

// Namespace is 0: there is one process table.
func Namespace() (uint64, error) { return 0, nil }

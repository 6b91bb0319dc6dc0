// Package kernel lets a test see how a program behaves on a kernel that refuses system
// calls.
//
// The test starts its own binary again with Variable set, and TestMain calls Become
// before anything else. A filter of system calls then holds for the process and all that
// it starts.
package kernel

import "os"

// Variable is the variable of the environment with the name of the kernel.
const Variable = "ACODE_TEST_KERNEL"

// The kernels.
const (
	// NoNamespaces refuses new namespaces, as in a container of Docker.
	NoNamespaces = "no_namespaces"
	// NoMounts makes namespaces, but refuses mounts in them, as distributions with AppArmor
	// do.
	NoMounts = "no_mounts"
	// NoLandlock is older than Landlock.
	NoLandlock = "no_landlock"
	// LandlockOff has Landlock, which was not enabled at boot.
	LandlockOff = "landlock_off"
	// NoDomains reports Landlock, but lets no process enter a domain.
	NoDomains = "no_domains"
	// NoFilters refuses filters of system calls.
	NoFilters = "no_filters"
)

// Become makes this process run on the kernel that the environment names, if it names
// one.
func Become() error {
	if name := os.Getenv(Variable); name != "" {
		return become(name)
	}
	return nil
}

package sandbox

// Finding is one act that was tried inside a real sandbox.
type Finding struct {
	// Act describes the act in words.
	Act string `json:"act"`
	// Promised says that the sandbox promises to refuse the act on this system.
	Promised bool `json:"promised"`
	Refused  bool `json:"refused"`
	// Error is the answer of the system to a refused act.
	Error string `json:"error,omitempty"`
}

// Probe is the first argument of this program when it tries acts inside a sandbox. The
// other arguments are for Try.
const Probe = "sandbox-probe"

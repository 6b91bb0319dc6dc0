package command

// Childless reports whether this process surely has no child.
func Childless() bool { return childless() }

// ReadProc reads a file of the kernel.
func ReadProc(path string) ([]byte, error) { return readProc(path) }

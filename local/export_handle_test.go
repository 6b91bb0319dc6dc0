package local

// Assign exports assign.
func Assign(dst, v any) error { return assign(dst, v) }

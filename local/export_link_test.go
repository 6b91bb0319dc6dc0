package local

// Assign stores a column in what dst points to.
func Assign(dst, v any) error { return assign(dst, v) }

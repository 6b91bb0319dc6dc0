package local

// NetworkMagic names a file system.
func NetworkMagic(magic uint32) (string, bool) { return networkMagic(magic) }

// WhereIs tells which file path names.
func WhereIs(path string) (any, error) { return whereIs(path) }

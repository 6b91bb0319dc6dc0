package local

// NetworkMagic names a file system.
func NetworkMagic(magic uint32) (string, bool) { return networkMagic(magic) }

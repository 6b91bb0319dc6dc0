package local

// NetworkMagic exports networkMagic.
func NetworkMagic(magic uint32) (string, bool) { return networkMagic(magic) }

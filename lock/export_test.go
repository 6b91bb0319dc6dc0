package lock

import "os"

// What the disk does is not to be had on demand, so tests reach these directly.

func IOError(path string, err error) error { return ioError(path, err) }

func WriteHolder(f *os.File, h Holder) error { return write(f, h) }

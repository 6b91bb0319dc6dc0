package workspace

import (
	"encoding/hex"
	"hash"
	"io"
)

// verified passes bytes on and, at their end, holds them against the hash that they must
// have.
type verified struct {
	r    io.Reader
	sum  hash.Hash
	want string
	name string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		return n, fileChanged(v.name, "the content is no longer what was hashed")
	}
	return n, err
}

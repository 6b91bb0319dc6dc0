//go:build !linux

package subtree

import "errors"

func followsLinks() bool { return false }

// Resolve returns errors.ErrUnsupported: only Linux resolves whole paths.
func Resolve(string) (Tree, error) { return nil, errors.ErrUnsupported }

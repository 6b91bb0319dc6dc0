package main

import (
	"context"

	"github.com/acode-dev/acode/remote"
)

type stub struct{ *remote.Server }

func (s stub) Project(ctx context.Context, limit int) (bool, error) { return false, nil }

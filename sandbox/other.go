//go:build !linux

package sandbox

import (
	"errors"
	"syscall"
)

// Attributes returns attr.
func (p Profile) Attributes(attr syscall.SysProcAttr) *syscall.SysProcAttr { return &attr }

// Mode returns an error: only Linux can confine commands.
func Mode(string) (string, error) { return "", errors.New("only Linux can confine commands") }

// Enforced returns an empty text.
func (p Profile) Enforced() string { return "" }

// SignalsConfined returns false.
func SignalsConfined() bool { return false }

// Enter refuses to start a command.
func Enter([]string) int { return 126 }

// Failure returns nil.
func Failure(string) error { return nil }

// Examine returns an error: only Linux can confine commands.
func (p Profile) Examine(string, string, string) ([]Finding, error) {
	return nil, errors.New("only Linux can confine commands")
}

// Try does nothing.
func Try([]string) int { return 126 }

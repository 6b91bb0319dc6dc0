package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Attributes returns the attributes with which the first stage must be started, added to
// attr.
func (p Profile) Attributes(attr syscall.SysProcAttr) *syscall.SysProcAttr {
	if p.Mode != Namespaces {
		return &attr
	}
	attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if !p.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	// the stage gives them up before the command
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	return &attr
}

// trial is set in the environment of a stage that try starts. A program that does not
// call Enter, such as a test, must not try again from there.
const trial = "ACODE_SANDBOX_TRIAL"

// trialLimit is how long the kernel may take to build a sandbox.
const trialLimit = 20 * time.Second

// Mode returns the mode that works on this system. It starts executable, a program that
// calls Enter, once or twice. It returns an error if this system cannot confine commands.
func Mode(executable string) (string, error) {
	if os.Getenv(trial) != "" {
		return "", errors.New("this program does not begin the first stage of a sandbox")
	}
	abi := landlockABI()
	if abi < 1 {
		return "", errors.New("the kernel lacks Landlock, which Linux has from 5.13 on if it is enabled")
	}
	dir, err := os.MkdirTemp("", "acode-sandbox-")
	if err != nil {
		return "", fmt.Errorf("try the sandbox: %w", err)
	}
	// the trial left nothing of use in it
	defer func() { _ = os.RemoveAll(dir) }()
	p := Profile{Mode: Namespaces, Workspace: dir, Home: dir, Tmp: dir}
	refused := p.try(executable)
	if refused == nil {
		return Namespaces, nil
	}
	if abi < leastFilterABI {
		return "", fmt.Errorf("the kernel refuses user namespaces (%w), and its Landlock cannot prevent that files are truncated, which Linux has from 6.2 on", refused)
	}
	p.Mode = Filter
	return Filter, p.try(executable)
}

// try starts a stage with p that executes nothing.
func (p Profile) try(executable string) error {
	ctx, stop := context.WithTimeout(context.Background(), trialLimit)
	defer stop()
	var out, said strings.Builder
	cmd := exec.CommandContext(ctx, executable, p.Arguments("", 0, "", nil)...)
	// a program with the race detector reads its options from GORACE
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{trial + "=1", "GORACE=" + os.Getenv("GORACE")}, "/", &out, &said
	cmd.SysProcAttr = p.Attributes(syscall.SysProcAttr{})
	err := cmd.Run()
	switch text := strings.TrimSpace(said.String()); {
	case err != nil && text != "":
		return errors.New(text)
	case err == nil && out.String() != Stage:
		return fmt.Errorf("%s is not acode", executable)
	}
	return err
}

// Enforced names what the kernel enforces for p, for a record.
func (p Profile) Enforced() string {
	text := fmt.Sprintf("%s, landlock %d", p.Mode, landlockABI())
	if p.Network {
		text += ", network"
	}
	if p.ReadOnly {
		text += ", reading"
	}
	return text
}

// SignalsConfined reports whether this kernel keeps signals of a confined command from
// other processes.
func SignalsConfined() bool { return landlockABI() >= scopeABI }

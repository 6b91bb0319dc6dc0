package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// targets are things outside that a command must not reach.
type targets struct {
	File   string `json:"file"`
	Home   string `json:"home"`
	TCP    string `json:"tcp"`
	UDP    string `json:"udp"`
	Path   string `json:"path"`
	Name   string `json:"name"`
	Parent int    `json:"parent"`
}

// unrouted is an address of a network for documentation. Nothing is sent to it: only the
// route is looked up.
const unrouted = "192.0.2.1:53"

// Examine tries acts in a sandbox with p, and returns the result of each. It starts
// executable, which must call Enter and Try. It makes files in state, a directory that p
// must not reach, and removes them.
func (p Profile) Examine(executable, state, home string) ([]Finding, error) {
	dir, err := os.MkdirTemp(state, "doctor-")
	if err != nil {
		return nil, err
	}
	// its files are of no use any more
	defer func() { _ = os.RemoveAll(dir) }()
	t := targets{File: filepath.Join(dir, "file"), Home: home, Path: filepath.Join(dir, "s"), Name: "@" + filepath.Base(dir) + strconv.Itoa(os.Getpid()), Parent: os.Getpid()}
	if err := os.WriteFile(t.File, []byte("x"), 0o600); err != nil {
		return nil, err
	}
	done, err := t.serve()
	if err != nil {
		return nil, err
	}
	defer done()
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	p.Read = append(p.Read, executable)
	cmd := exec.Command(executable, p.Arguments("", 0, executable, []string{executable, Probe, string(b)})...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"HOME=" + p.Home, "TMPDIR=" + p.TempDir()}, os.Stderr
	cmd.SysProcAttr = p.Attributes(syscall.SysProcAttr{})
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("try the sandbox: %w", err)
	}
	var found []Finding
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("try the sandbox: %w", err)
	}
	for i := range found {
		found[i].Promised = p.promises(found[i].Act)
	}
	return found, nil
}

// promises reports whether the sandbox refuses an act on this kernel.
func (p Profile) promises(act string) bool {
	switch act {
	case actTCP, actUDP, actDNS:
		return !p.Network
	case actMode:
		return p.Mode == Namespaces
	case actLoopback:
		return p.Mode == Filter && !p.Network
	case actAbstract:
		return p.Mode == Filter || !p.Network || landlockABI() >= scopeABI
	case actSignal:
		return landlockABI() >= scopeABI
	}
	return true
}

// serve listens on the sockets of t until done is called.
func (t *targets) serve() (done func(), err error) {
	var open []interface{ Close() error }
	done = func() {
		for _, c := range open {
			// nothing was sent
			_ = c.Close()
		}
	}
	for _, at := range []struct {
		network, address string
		chosen           *string
	}{{"tcp", "127.0.0.1:0", &t.TCP}, {"unix", t.Path, &t.Path}, {"unix", t.Name, &t.Name}} {
		ln, err := net.Listen(at.network, at.address)
		if err != nil {
			done()
			return nil, err
		}
		open = append(open, ln)
		*at.chosen = ln.Addr().String()
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		done()
		return nil, err
	}
	open, t.UDP = append(open, conn), conn.LocalAddr().String()
	go func() {
		b := make([]byte, 1)
		for {
			_, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			// the other end may be gone
			_, _ = conn.WriteTo(b, from)
		}
	}()
	return done, nil
}

const (
	actRead     = "read a file of the store"
	actHome     = "read your home directory"
	actWrite    = "write outside the workspace"
	actMode     = "change the mode of a file outside the workspace"
	actTCP      = "connect to this machine by TCP"
	actUDP      = "reach this machine by UDP"
	actDNS      = "reach a name server"
	actPath     = "connect to a UNIX socket by its path"
	actAbstract = "connect to an abstract UNIX socket"
	actLoopback = "use a loopback interface of its own"
	actMemory   = "read the environment of another process"
	actSignal   = "signal another process"
)

// Try carries out the acts of Examine and prints the findings. args follow Probe. It
// returns the exit status.
func Try(args []string) int {
	var t targets
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &t) != nil {
		return unstarted
	}
	var found []Finding
	for _, a := range t.acts() {
		f := Finding{Act: a.name}
		if err := a.try(); err != nil {
			f.Refused, f.Error = true, reason(err)
		}
		found = append(found, f)
	}
	if json.NewEncoder(os.Stdout).Encode(found) != nil {
		return unstarted
	}
	return 0
}

// reason returns the error of the system in err.
func reason(err error) string {
	if no := unix.Errno(0); errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

type act struct {
	name string
	try  func() error
}

func (t targets) acts() []act {
	opens := func(path string, flags int) func() error {
		return func() error {
			f, err := os.OpenFile(path, flags, 0o600)
			if err != nil {
				return err
			}
			return f.Close()
		}
	}
	dials := func(network, address string) func() error {
		return func() error {
			conn, err := net.DialTimeout(network, address, time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	return []act{
		{actRead, opens(t.File, os.O_RDONLY)},
		{actHome, t.readHome},
		{actWrite, opens(t.File, os.O_WRONLY)},
		{actMode, func() error { return os.Chmod(t.File, 0o400) }},
		{actTCP, dials("tcp", t.TCP)},
		{actUDP, t.echo},
		{actDNS, dials("udp", unrouted)},
		{actPath, dials("unix", t.Path)},
		{actAbstract, dials("unix", t.Name)},
		{actLoopback, loopback},
		{actMemory, opens(fmt.Sprintf("/proc/%d/environ", t.Parent), os.O_RDONLY)},
		{actSignal, func() error { return unix.Kill(t.Parent, 0) }},
	}
}

// readHome looks for a file of the person in the home directory. A private root holds
// directories that lead to toolchains there.
func (t targets) readHome() error {
	entries, err := os.ReadDir(t.Home)
	for _, e := range entries {
		if e.Type().IsRegular() {
			return nil
		}
	}
	if err == nil {
		err = errors.New("it is empty, except for toolchains")
	}
	return err
}

func (t targets) echo() error {
	conn, err := net.DialTimeout("udp", t.UDP, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written that counts
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	// a read without an answer then fails
	defer time.AfterFunc(time.Second, func() { _ = conn.Close() }).Stop()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func loopback() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close() //nolint:errcheck // it was only tried
	conn, err := net.DialTimeout("tcp", ln.Addr().String(), time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

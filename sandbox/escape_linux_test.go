package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/sandbox"
)

type ctx = context.Context

var background = context.Background()

// escape is an act that the sandbox refuses, and its neighbour: an act of the same kind
// that it allows.
type escape struct {
	name string
	bad  []string
	good []string
	// open says that the mode Filter does not prevent it; lost says that the mode refuses
	// the neighbour too. docs/threats.md names both.
	open, lost bool
	// safe says that the act is not possible without a sandbox either, or would harm the
	// machine, so the control does not try it.
	safe bool
	// root says that the act needs root without a sandbox.
	root bool
}

// stagings are the things outside that escapes aim at.
type stagings struct {
	victim            int
	tcp, tcp6, udp    string
	far, unix, gram   string
	abstract, absgram string
	shm               int
	pts, setuid, shmf string
}

func escapes(b box, s stagings) []escape {
	out, in, listed := func(n string) string { return filepath.Join(b.outside, n) }, func(n string) string { return filepath.Join(b.Workspace, n) }, func(n string) string { return filepath.Join(b.listed, n) }
	victim := strconv.Itoa(s.victim)
	all := []escape{
		// files outside
		{name: "write", bad: []string{"write", out("file")}, good: []string{"write", in("file")}},
		{name: "write to a listed file", bad: []string{"write", listed("file")}, good: []string{"write", filepath.Join(b.Home, "file")}},
		{name: "replace a listed program", bad: []string{"write", listed("script")}, good: []string{"write", filepath.Join(b.TempDir(), "script")}},
		{name: "append", bad: []string{"append", out("file")}, good: []string{"append", in("file")}},
		{name: "open and truncate", bad: []string{"open-trunc", out("file")}, good: []string{"open-trunc", in("file")}},
		{name: "truncate", bad: []string{"truncate", out("file")}, good: []string{"truncate", in("file")}},
		{name: "truncate a listed file", bad: []string{"truncate", listed("file")}, good: []string{"truncate", in("file")}},
		{name: "create", bad: []string{"create", out("new")}, good: []string{"create", in("new")}},
		{name: "plant a program", bad: []string{"create", listed("planted")}, good: []string{"create", in("planted")}},
		{name: "plant in /usr/local/bin", bad: []string{"create", "/usr/local/bin/acode-planted"}, good: []string{"create", in("planted2")}, safe: true},
		{name: "unlink", bad: []string{"unlink", out("script")}, good: []string{"unlink", in("planted")}},
		{name: "unlink a listed file", bad: []string{"unlink", listed("script")}, good: []string{"unlink", in("planted2")}},
		{name: "rmdir", bad: []string{"rmdir", out("dir")}, good: []string{"rmdir", in("dir")}},
		{name: "mkdir", bad: []string{"mkdir", out("made")}, good: []string{"mkdir", in("dir")}},
		{name: "rename outside", bad: []string{"rename", out("file"), out("renamed")}, good: []string{"rename", in("new"), in("renamed")}},
		{name: "rename into the workspace", bad: []string{"rename", out("dir"), in("stolen")}, good: []string{"rename", in("renamed"), in("dir/renamed")}},
		{name: "rename out of the workspace", bad: []string{"rename", in("script"), out("dropped")}, good: []string{"rename", in("dir/renamed"), in("new")}},
		{name: "exchange", bad: []string{"exchange", in("file"), out("file")}, good: []string{"exchange", in("file"), in("new")}},
		{name: "move the workspace", bad: []string{"rename", b.Workspace, out("ws")}, good: []string{"rename", in("new"), in("newer")}, safe: true},
		{name: "hard link into the workspace", bad: []string{"link", out("file"), in("linked")}, good: []string{"link", in("file"), in("linked2")}},
		{name: "hard link to a listed file", bad: []string{"link", listed("file"), in("linked3")}, good: []string{"link", in("file"), in("linked4")}},
		{name: "hard link out of the workspace", bad: []string{"link", in("file"), out("linked")}, good: []string{"link", in("file"), in("dir/linked")}},
		{name: "symlink", bad: []string{"symlink", out("symlink")}, good: []string{"symlink", in("symlink")}},
		{name: "write through a link", bad: []string{"through-link", out("file")}, good: []string{"through-link", in("file")}},
		{name: "chmod", bad: []string{"chmod", out("file")}, good: []string{"chmod", in("file")}, open: true},
		{name: "chmod a listed file", bad: []string{"chmod", listed("file")}, good: []string{"chmod", in("file")}, open: true},
		{name: "chown", bad: []string{"chown", out("file")}, good: []string{"chown", in("file")}, open: true},
		{name: "utimes", bad: []string{"utimes", out("file")}, good: []string{"utimes", in("file")}, open: true},
		{name: "setxattr", bad: []string{"setxattr", out("file")}, good: []string{"setxattr", in("file")}, open: true},
		{name: "mkfifo", bad: []string{"mkfifo", out("fifo")}, good: []string{"mkfifo", in("fifo")}},
		{name: "bind a socket", bad: []string{"bind-socket", out("socket")}, good: []string{"bind-socket", in("socket")}, lost: true},
		{name: "unnamed file", bad: []string{"tmpfile", out("")}, good: []string{"tmpfile", in("")}},
		{name: "relative path", bad: []string{"write", "../outside/file"}, good: []string{"write", "./file"}},
		{name: "create beside the workspace", bad: []string{"create", "../beside"}, good: []string{"create", "./beside"}},
		{name: "character device", bad: []string{"char-device", in("kmsg")}, good: []string{"mkfifo", in("fifo2")}, root: true},
		{name: "block device", bad: []string{"block-device", in("disk")}, good: []string{"mkfifo", in("fifo3")}, root: true},
		{name: "mount", bad: []string{"mount", in("dir")}, good: []string{"mkdir", in("dir2")}, root: true},
		{name: "bind mount", bad: []string{"bind-mount", "/etc"}, good: []string{"mkdir", in("dir3")}, root: true},
		{name: "remount", bad: []string{"remount", "/"}, good: []string{"mkdir", in("dir4")}, safe: true},
		{name: "remount a listed directory", bad: []string{"remount", b.listed}, good: []string{"mkdir", in("dir5")}, safe: true},
		{name: "chroot", bad: []string{"chroot", "."}, good: []string{"list", "."}, root: true},
		{name: "give a file away", bad: []string{"chown-other", in("file")}, good: []string{"chown", in("file")}, root: true},
		{name: "kernel setting", bad: []string{"rewrite", "/proc/sys/kernel/core_pattern"}, good: []string{"rewrite", in("file")}, root: true},
		{name: "sysrq", bad: []string{"append", "/proc/sysrq-trigger"}, good: []string{"read", "/proc/version"}, safe: true},
		{name: "/sys", bad: []string{"append", "/sys/power/state"}, good: []string{"list", "/sys"}, safe: true},

		// reading
		{name: "read", bad: []string{"read", out("file")}, good: []string{"read", in("file")}},
		{name: "read a directory", bad: []string{"list", b.outside}, good: []string{"list", b.listed}},
		{name: "stat", bad: []string{"stat", out("file")}, good: []string{"stat", listed("file")}, open: true},
		{name: "execute", bad: []string{"exec", out("script")}, good: []string{"exec", listed("script")}},
		{name: "read by /proc/self/root", bad: []string{"read", "/proc/self/root" + out("file")}, good: []string{"read", "/proc/self/root" + in("file")}},
		{name: "read by /proc/self/cwd", bad: []string{"read", "/proc/self/cwd/../outside/file"}, good: []string{"read", "/proc/self/cwd/file"}},
		{name: "read above the root", bad: []string{"read", "/.." + out("file")}, good: []string{"read", "/.." + in("file")}},
		{name: "chmod above the root", bad: []string{"chmod", "/.." + out("file")}, good: []string{"chmod", "/.." + in("file")}, open: true},
		{name: "read by handle", bad: []string{"read-handle", out("file")}, good: []string{"read", in("file")}, root: true},
		{name: "/dev/kmsg", bad: []string{"open-rw", "/dev/kmsg"}, good: []string{"open-rw", "/dev/null"}, root: true},
		{name: "/dev/mem", bad: []string{"read", "/dev/mem"}, good: []string{"read", "/dev/zero"}, safe: true},
		{name: "/dev/shm", bad: []string{"read", s.shmf}, good: []string{"write", "/dev/shm/acode-test-own"}, lost: true},
		{name: "/run", bad: []string{"list", "/run"}, good: []string{"list", "/usr"}},
		{name: "terminal of the person", bad: []string{"open-rw", s.pts}, good: []string{"ptmx"}, lost: true},

		// other processes
		{name: "environ", bad: []string{"environ", victim}, good: []string{"environ", "own"}},
		{name: "maps", bad: []string{"maps", victim}, good: []string{"maps", "own"}},
		{name: "mem", bad: []string{"mem", victim}, good: []string{"maps", "own"}},
		{name: "oom score", bad: []string{"oom-score", victim}, good: []string{"maps", "own"}},
		{name: "root of a process", bad: []string{"proc-root", victim}, good: []string{"proc-root", "own"}},
		{name: "cwd of a process", bad: []string{"proc-cwd", victim}, good: []string{"proc-cwd", "own"}},
		{name: "descriptor of a process", bad: []string{"proc-fd", victim}, good: []string{"proc-fd", "own"}},
		{name: "kill", bad: []string{"kill", victim}, good: []string{"kill", "own"}},
		{name: "kill a group", bad: []string{"kill-group", victim}, good: []string{"kill-group", "own"}},
		{name: "tgkill", bad: []string{"tgkill", victim}, good: []string{"tgkill", "own"}},
		{name: "sigqueue", bad: []string{"sigqueue", victim}, good: []string{"sigqueue", "own"}},
		{name: "pidfd signal", bad: []string{"pidfd-signal", victim}, good: []string{"pidfd-signal", "own"}},
		{name: "pidfd getfd", bad: []string{"pidfd-getfd", victim}, good: []string{"pidfd-getfd", "own"}},
		{name: "ptrace", bad: []string{"ptrace", victim}, good: []string{"ptrace", "own"}},
		{name: "process_vm_readv", bad: []string{"vm-read", victim}, good: []string{"vm-read", "own"}},
		{name: "prlimit", bad: []string{"prlimit", victim}, good: []string{"prlimit", "self"}},
		{name: "setns", bad: []string{"setns", victim}, good: []string{"clone"}, root: true},
		{name: "acode itself", bad: []string{"kill", strconv.Itoa(os.Getpid())}, good: []string{"kill", "own"}},

		// network
		{name: "tcp to loopback", bad: []string{"connect", "tcp", s.tcp}, good: []string{"serve", "tcp", "127.0.0.1:0"}, lost: true},
		{name: "tcp6 to loopback", bad: []string{"connect", "tcp", s.tcp6}, good: []string{"serve", "tcp", "[::1]:0"}, lost: true},
		{name: "udp to loopback", bad: []string{"connect", "udp", s.udp}, good: []string{"udp-self"}, lost: true},
		{name: "udp to this host", bad: []string{"connect", "udp", s.far}, good: []string{"udp-self"}, lost: true},
		{name: "dns", bad: []string{"dns", s.udp}, good: []string{"localhost"}, safe: true},
		{name: "tcp fast open", bad: []string{"fastopen", s.tcp}, good: []string{"serve", "tcp", "127.0.0.1:0"}, lost: true},
		{name: "unix socket", bad: []string{"connect", "unix", s.unix}, good: []string{"serve", "unix", in("s1")}, lost: true},
		{name: "unix packets", bad: []string{"unixgram", in("g1"), s.gram}, good: []string{"unixgram-pair", in("g2")}, lost: true},
		{name: "abstract socket", bad: []string{"connect", "unix", s.abstract}, good: []string{"serve", "unix", "@acode-test-own"}, lost: true},
		{name: "abstract packets", bad: []string{"unixgram", "@acode-test-from", s.absgram}, good: []string{"unixgram-pair", "@acode-test-own2"}, lost: true},
		{name: "interfaces", bad: []string{"interfaces", "others"}, good: []string{"interfaces", "loopback"}, lost: true},
		{name: "raw socket", bad: []string{"raw"}, good: []string{"tcp"}, lost: true, root: true},
		{name: "raw socket of IPv6", bad: []string{"raw6"}, good: []string{"tcp6"}, lost: true, root: true},
		{name: "packet socket", bad: []string{"packet"}, good: []string{"socketpair"}, root: true},
		{name: "vsock", bad: []string{"vsock"}, good: []string{"socketpair"}, safe: true},
		{name: "alg socket", bad: []string{"alg"}, good: []string{"socketpair"}, safe: true},
		{name: "uevents", bad: []string{"uevents"}, good: []string{"netlink"}, lost: true},
		{name: "audit", bad: []string{"audit"}, good: []string{"netlink"}, lost: true, safe: true},
		{name: "sock diag", bad: []string{"sock-diag"}, good: []string{"netlink"}, lost: true},

		// the kernel
		{name: "io_uring", bad: []string{"io-uring"}, good: []string{"memfd"}, safe: true},
		{name: "keyctl", bad: []string{"keyctl"}, good: []string{"memfd"}, safe: true},
		{name: "add_key", bad: []string{"add-key"}, good: []string{"memfd"}, safe: true},
		{name: "bpf", bad: []string{"bpf"}, good: []string{"memfd"}, safe: true},
		{name: "perf", bad: []string{"perf"}, good: []string{"memfd"}, safe: true},
		{name: "userfaultfd", bad: []string{"userfaultfd"}, good: []string{"memfd"}, safe: true},
		{name: "unshare a user namespace", bad: []string{"unshare-user"}, good: []string{"clone"}},
		{name: "unshare a network namespace", bad: []string{"unshare-network"}, good: []string{"clone"}, root: true},
		{name: "clone a user namespace", bad: []string{"clone-user"}, good: []string{"clone"}},
		{name: "clone3 a user namespace", bad: []string{"clone3-user"}, good: []string{"clone"}},
		{name: "unshare by its 32-bit number", bad: []string{"exec", listed(foreign)}, good: []string{"exec", listed("script")}, safe: !runsForeign()},
		{name: "shared memory", bad: []string{"shm", strconv.Itoa(s.shm)}, good: []string{"shm-own"}, lost: true},
		{name: "setuid program", bad: []string{"setuid", s.setuid}, good: []string{"exec", listed("script")}},
	}
	return all
}

// TestEscapes carries out every escape on each kernel, and each of its neighbours.
func TestEscapes(t *testing.T) {
	onKernels(t, func(t *testing.T, mode string) {
		b := newBox(t, mode)
		b.attempt(escapes(b, stage(t, b)))
	})
}

// With a network, a command reaches no more than the network.
func TestEscapesWithNetwork(t *testing.T) {
	onKernels(t, func(t *testing.T, mode string) {
		b := newBox(t, mode)
		b.Network = true
		s := stage(t, b)
		in := func(n string) string { return filepath.Join(b.Workspace, n) }
		old := !sandbox.SignalsConfined() && mode == sandbox.Namespaces
		b.attempt([]escape{
			{name: "unix socket", bad: []string{"connect", "unix", s.unix}, good: []string{"serve", "unix", in("s1")}, lost: true},
			{name: "unix packets", bad: []string{"unixgram", in("g1"), s.gram}, good: []string{"unixgram-pair", in("g2")}, lost: true},
			{name: "abstract socket", bad: []string{"connect", "unix", s.abstract}, good: []string{"connect", "tcp", s.tcp}, open: old},
			{name: "abstract packets", bad: []string{"unixgram", "@acode-test-from", s.absgram}, good: []string{"connect", "udp", s.udp}, open: old},
			{name: "raw socket", bad: []string{"raw"}, good: []string{"connect", "tcp", s.tcp6}},
			{name: "packet socket", bad: []string{"packet"}, good: []string{"connect", "udp", s.far}},
			{name: "alg socket", bad: []string{"alg"}, good: []string{"serve", "tcp", "127.0.0.1:0"}},
			{name: "sock diag", bad: []string{"sock-diag"}, good: []string{"netlink"}},
			{name: "uevents", bad: []string{"uevents"}, good: []string{"localhost"}},
			{name: "write", bad: []string{"write", filepath.Join(b.outside, "file")}, good: []string{"write", in("file")}},
			{name: "read", bad: []string{"read", filepath.Join(b.outside, "file")}, good: []string{"read", in("file")}},
			{name: "kill", bad: []string{"kill", strconv.Itoa(s.victim)}, good: []string{"kill", "own"}, open: !sandbox.SignalsConfined()},
		})
	})
}

// attempt carries out escapes and their neighbours in the sandbox.
func (b box) attempt(all []escape) {
	b.t.Helper()
	breached := 0
	for _, e := range all {
		before := b.state(b.outside, b.listed)
		err := b.do(e.bad[0], e.bad[1:]...)
		if named := e.open && (b.Network || b.Mode == sandbox.Filter); !named && (err == nil || b.state(b.outside, b.listed) != before) {
			b.t.Errorf("%s: breached (%v)", e.name, err)
			breached++
		}
		if err := b.do(e.good[0], e.good[1:]...); (err != nil) != (e.lost && b.Mode == sandbox.Filter) {
			b.t.Errorf("%s: its neighbour %v: got %v", e.name, e.good, err)
		}
	}
	b.t.Logf("%s: user %d: %d escapes, %d breached", b.Mode, os.Geteuid(), len(all), breached)
}

// Without a sandbox the same acts have their effect. Otherwise the corpus would show
// nothing.
func TestEscapesWithoutSandbox(t *testing.T) {
	root := os.Geteuid() == 0
	breached, tried := 0, 0
	for i := range escapes(newBox(t, ""), stagings{}) {
		// each act finds everything in its place
		b := newBox(t, "")
		e := escapes(b, stage(t, b))[i]
		if e.safe {
			continue
		}
		tried++
		if err := b.do(e.bad[0], e.bad[1:]...); err == nil {
			breached++
		} else if root || !e.root {
			t.Errorf("%s: got %v, want its effect", e.name, err)
		}
	}
	t.Logf("user %d: %d of %d had their effect", os.Geteuid(), breached, tried)
	if root {
		t.Run("ordinary_user", asOrdinary)
	}
}

// state returns a hash of everything below dirs.
func (b box) state(dirs ...string) string {
	b.t.Helper()
	sum := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return err
			}
			content := []byte(nil)
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				if content, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			fmt.Fprintln(sum, path, st.Mode, st.Uid, st.Nlink, st.Mtim, st.Ctim)
			sum.Write(content)
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// stage prepares the targets of escapes: a process, servers, shared memory, a terminal.
func stage(t *testing.T, b box) (s stagings) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := os.Open(filepath.Join(b.outside, "file"))
	must(t, err)
	cmd.Stdin = in
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = in.Close() })
	s.victim = cmd.Process.Pid
	name := strings.ReplaceAll(filepath.Base(filepath.Dir(b.outside))+t.Name(), "/", "-") + strconv.Itoa(os.Getpid())
	s.unix, s.gram = filepath.Join(b.outside, "s"), filepath.Join(b.outside, "g")
	s.abstract, s.absgram = "@"+name+"-s", "@"+name+"-g"
	s.tcp, s.tcp6 = echo(t, "tcp", "127.0.0.1:0"), echo(t, "tcp", "[::1]:0")
	s.udp, s.far = echo(t, "udp", "127.0.0.1:0"), echo(t, "udp", net.JoinHostPort(address(), "0"))
	echo(t, "unix", s.unix)
	echo(t, "unixgram", s.gram)
	echo(t, "unix", s.abstract)
	echo(t, "unixgram", s.absgram)
	s.shm, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	must(t, err)
	near, far, err := pty.Open()
	must(t, err)
	s.pts, s.shmf = far.Name(), filepath.Join("/dev/shm", name)
	write(t, s.shmf, "secret")
	t.Cleanup(func() {
		// they end with this process at the latest
		_, _ = unix.SysvShmCtl(s.shm, unix.IPC_RMID, nil)
		_ = os.Remove(s.shmf)
		_, _ = near.Close(), far.Close()
	})
	writeForeign(t, filepath.Join(b.listed, foreign))
	s.setuid = filepath.Join(filepath.Dir(self()), "id")
	if os.Geteuid() == 0 {
		id, err := exec.LookPath("id")
		must(t, err)
		s.setuid = filepath.Join(b.listed, "id")
		copied(t, id, s.setuid, 0o755)
		must(t, os.Chown(s.setuid, 65534, 65534))
		must(t, os.Chmod(s.setuid, os.ModeSetuid|0o755))
	}
	return s
}

// address returns an address of this machine that is not loopback, if there is one.
func address() string {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); err == nil && ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// echo serves an address until the end of the test.
func echo(t *testing.T, network, at string) string {
	t.Helper()
	if strings.HasPrefix(network, "udp") || network == "unixgram" {
		conn, err := net.ListenPacket(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			b := make([]byte, 512)
			for {
				n, from, err := conn.ReadFrom(b)
				if err != nil {
					return
				}
				// the other end may be gone
				_, _ = conn.WriteTo(b[:n], from)
			}
		}()
		return conn.LocalAddr().String()
	}
	ln, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				b := make([]byte, 1)
				if _, err := conn.Read(b); err == nil {
					// the other end may be gone
					_, _ = conn.Write(b)
				}
				_ = conn.SetDeadline(time.Now())
				_ = conn.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

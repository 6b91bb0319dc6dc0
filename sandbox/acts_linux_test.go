package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// actMain carries out an act and returns its exit status, 0 if the act succeeded.
func actMain(name string, args []string) int {
	act := acts()[name]
	if act == nil {
		fmt.Println("no act", name)
		return 2
	}
	if err := act(args); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// acts lists the acts that a command may try. An act returns nil if it had its effect.
func acts() map[string]func([]string) error {
	all := map[string]func([]string) error{}
	for _, group := range []map[string]func([]string) error{fileActs(), readActs(), processActs(), networkActs(), kernelActs()} {
		for name, act := range group {
			all[name] = act
		}
	}
	return all
}

// opened opens a file and writes nothing.
func opened(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func fileActs() map[string]func([]string) error {
	return map[string]func([]string) error{
		"write":      func(a []string) error { return os.WriteFile(a[0], []byte("planted"), 0o755) },
		"append":     func(a []string) error { return opened(a[0], os.O_WRONLY|os.O_APPEND) },
		"open-trunc": func(a []string) error { return opened(a[0], os.O_RDONLY|os.O_TRUNC) },
		"truncate":   func(a []string) error { return os.Truncate(a[0], 1) },
		"create":     func(a []string) error { return opened(a[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL) },
		"unlink":     func(a []string) error { return unix.Unlink(a[0]) },
		"rmdir":      func(a []string) error { return unix.Rmdir(a[0]) },
		"mkdir":      func(a []string) error { return unix.Mkdir(a[0], 0o755) },
		"rename":     func(a []string) error { return unix.Rename(a[0], a[1]) },
		"exchange": func(a []string) error {
			return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
		},
		"link":     func(a []string) error { return unix.Link(a[0], a[1]) },
		"symlink":  func(a []string) error { return unix.Symlink("/etc/passwd", a[0]) },
		"chmod":    func(a []string) error { return os.Chmod(a[0], 0o600) },
		"chown":    func(a []string) error { return os.Lchown(a[0], os.Getuid(), os.Getgid()) },
		"utimes":   func(a []string) error { return os.Chtimes(a[0], time.Unix(1, 0), time.Unix(1, 0)) },
		"setxattr": func(a []string) error { return unix.Setxattr(a[0], "user.planted", []byte("x"), 0) },
		"file-flags": func(a []string) error {
			f, err := os.Open(a[0])
			if err == nil {
				// do not dump it
				err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x40)
			}
			return err
		},
		"mkfifo":      func(a []string) error { return unix.Mkfifo(a[0], 0o644) },
		"bind-socket": func(a []string) error { return listenOnce("unix", a[0]) },
		"char-device": func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 11))) },
		"block-device": func(a []string) error {
			return unix.Mknod(a[0], unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0)))
		},
		"tmpfile": func(a []string) error {
			fd, err := unix.Open(a[0], unix.O_TMPFILE|unix.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, filepath.Join(a[0], "linked"), unix.AT_SYMLINK_FOLLOW)
		},
		"through-link": func(a []string) error {
			// otherwise an earlier one is used
			_ = os.Symlink(a[0], "to-"+filepath.Base(filepath.Dir(a[0])))
			return opened("to-"+filepath.Base(filepath.Dir(a[0])), os.O_WRONLY)
		},
		"chown-other": func(a []string) error { return os.Lchown(a[0], 65534, 65534) },
		"mount":       func(a []string) error { return mounted("tmpfs", a[0], "tmpfs", 0) },
		"bind-mount":  func(a []string) error { return mounted(a[0], "dir", "", unix.MS_BIND) },
		"remount":     func(a []string) error { return unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"chroot":      func(a []string) error { return unix.Chroot(a[0]) },
		"rewrite": func(a []string) error {
			b, err := os.ReadFile(a[0])
			if err != nil {
				return err
			}
			f, err := os.OpenFile(a[0], os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(b)
			}
			return err
		},
	}
}

func mounted(source, target, kind string, flags uintptr) error {
	// otherwise the mount is seen by others until it is removed
	_ = unix.Unshare(unix.CLONE_NEWNS)
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		return err
	}
	return unix.Unmount(target, 0)
}

func readActs() map[string]func([]string) error {
	return map[string]func([]string) error{
		"read": func(a []string) error {
			f, err := os.Open(a[0])
			if err == nil {
				_, err = f.Read(make([]byte, 1))
			}
			return err
		},
		"list": func(a []string) error { _, err := os.ReadDir(a[0]); return err },
		"stat": func(a []string) error { _, err := os.Stat(a[0]); return err },
		"exec": func(a []string) error { return exec.Command(a[0]).Run() },
		"read-handle": func(a []string) error {
			h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[0], 0)
			if err != nil {
				return err
			}
			dir, err := unix.Open(filepath.Dir(a[0]), unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			_, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
			return err
		},
	}
}

// own starts a child to do something to, and returns its pid.
func own() (int, func(), error) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, nil
}

// at returns an act on the process that the argument names: a pid, or "own" for a child.
func at(act func(pid int) error) func([]string) error {
	return func(a []string) error {
		if a[0] != "own" {
			pid, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			return act(pid)
		}
		pid, end, err := own()
		if err != nil {
			return err
		}
		defer end()
		return act(pid)
	}
}

func call(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	if _, _, no := unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); no != 0 {
		return no
	}
	return nil
}

func processActs() map[string]func([]string) error {
	proc := func(file string, flags int) func([]string) error {
		return at(func(pid int) error { return opened(fmt.Sprintf("/proc/%d/%s", pid, file), flags) })
	}
	return map[string]func([]string) error{
		"environ":   proc("environ", os.O_RDONLY),
		"maps":      proc("maps", os.O_RDONLY),
		"mem":       proc("mem", os.O_RDWR),
		"oom-score": proc("oom_score_adj", os.O_WRONLY),
		"proc-root": proc("root/etc/passwd", os.O_RDONLY),
		"proc-cwd":  at(func(pid int) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd", pid)); return err }),
		"proc-fd":   proc("fd/0", os.O_RDONLY),
		"kill":      at(func(pid int) error { return unix.Kill(pid, unix.SIGCONT) }),
		"kill-group": at(func(pid int) error {
			group, err := unix.Getpgid(pid)
			if err != nil {
				return err
			}
			return unix.Kill(-group, unix.SIGCONT)
		}),
		"tgkill": at(func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGCONT) }),
		"pidfd-signal": at(func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		}),
		"pidfd-getfd": at(func(pid int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}),
		"sigqueue": at(func(pid int) error {
			var info [128]byte
			*(*int32)(unsafe.Pointer(&info[0])) = int32(unix.SIGCONT)
			// SI_QUEUE
			*(*int32)(unsafe.Pointer(&info[8])) = -1
			return call(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGCONT), uintptr(unsafe.Pointer(&info)))
		}),
		"ptrace": at(func(pid int) error { return unix.PtraceSeize(pid) }),
		"vm-read": at(func(pid int) error {
			start, err := mapped(pid)
			if err != nil {
				return err
			}
			b := make([]byte, 8)
			local := []unix.Iovec{{Base: &b[0], Len: 8}}
			_, err = unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: start, Len: 8}}, 0)
			return err
		}),
		"prlimit": func(a []string) error {
			pid := 0
			if a[0] != "self" {
				pid, _ = strconv.Atoi(a[0])
			}
			var now unix.Rlimit
			return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now)
		},
		"setns": at(func(pid int) error {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/uts", pid), unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, 0)
		}),
	}
}

// mapped returns an address that the process has mapped, also if its map cannot be read.
func mapped(pid int) (uintptr, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	start, _, _ := strings.Cut(string(b), "-")
	n, err := strconv.ParseUint(start, 16, 64)
	return uintptr(n), err
}

// listenOnce accepts a connection of its own.
func listenOnce(network, address string) error {
	ln, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer ln.Close()
	conn, err := net.DialTimeout(network, ln.Addr().String(), time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// echoed sends a byte and waits for its echo.
func echoed(network, local, address string) error {
	d := net.Dialer{Timeout: time.Second}
	if local != "" {
		d.LocalAddr = &net.UnixAddr{Name: local, Net: network}
	}
	conn, err := d.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func socket(family, kind, protocol int) func([]string) error {
	return func([]string) error { _, err := unix.Socket(family, kind, protocol); return err }
}

func networkActs() map[string]func([]string) error {
	return map[string]func([]string) error{
		"connect": func(a []string) error { return echoed(a[0], "", a[1]) },
		"serve":   func(a []string) error { return listenOnce(a[0], a[1]) },
		"unixgram": func(a []string) error {
			return echoed("unixgram", a[0], a[1])
		},
		"unixgram-pair": func(a []string) error {
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: a[0], Net: "unixgram"})
			if err != nil {
				return err
			}
			_, err = conn.WriteTo([]byte("x"), conn.LocalAddr())
			return err
		},
		"udp-self": func([]string) error {
			conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				return err
			}
			_, err = conn.WriteTo([]byte("x"), conn.LocalAddr())
			return err
		},
		"dns": func(a []string) error {
			_, err := (&net.Resolver{PreferGo: true, Dial: func() func(ctx ctx, network, _ string) (net.Conn, error) {
				return func(ctx ctx, network, _ string) (net.Conn, error) {
					return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, a[0])
				}
			}()}).LookupHost(background, "acode.test.")
			return err
		},
		"localhost": func([]string) error { _, err := net.LookupHost("localhost"); return err },
		"fastopen": func(a []string) error {
			addr, err := net.ResolveTCPAddr("tcp4", a[0])
			if err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			to := &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
			if err := unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to); err != nil {
				return err
			}
			_, err = unix.Read(fd, make([]byte, 1))
			return err
		},
		"interfaces": func(a []string) error {
			all, err := net.Interfaces()
			for _, i := range all {
				if (i.Flags&net.FlagLoopback != 0) == (a[0] == "loopback") {
					return err
				}
			}
			return errors.New("none")
		},
		"raw":       socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"raw6":      socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
		"packet":    socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"vsock":     socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"alg":       socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"uevents":   socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		"audit":     socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
		"sock-diag": socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG),
		"tcp":       socket(unix.AF_INET, unix.SOCK_STREAM, 0),
		"tcp6":      socket(unix.AF_INET6, unix.SOCK_STREAM, 0),
		"netlink":   socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"socketpair": func([]string) error {
			_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			return err
		},
	}
}

func kernelActs() map[string]func([]string) error {
	forked := func(flags uintptr) error {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return cmd.Run()
	}
	return map[string]func([]string) error{
		"io-uring": func([]string) error {
			var params [120]byte
			return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))
		},
		"keyctl": func([]string) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return err
		},
		"add-key": func([]string) error {
			_, err := unix.AddKey("user", "acode-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		},
		"bpf": func([]string) error {
			// a map of one entry
			attr := [32]uint32{1, 4, 4, 1}
			return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		},
		"perf": func([]string) error {
			_, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, 0, -1, -1, 0)
			return err
		},
		"userfaultfd":     func([]string) error { return call(unix.SYS_USERFAULTFD, 0) },
		"unshare-user":    func([]string) error { return forkUnshared(unix.CLONE_NEWUSER) },
		"unshare-network": func([]string) error { return forkUnshared(unix.CLONE_NEWNET) },
		"clone-user":      func([]string) error { return forked(unix.CLONE_NEWUSER) },
		"clone":           func([]string) error { return forked(0) },
		"clone3-user": func([]string) error {
			// clone_args: flags, then exit_signal as the fifth field
			args := [11]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
			pid, _, no := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
			if no != 0 {
				return no
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			_, err := unix.Wait4(int(pid), nil, 0, nil)
			return err
		},
		"shm": func(a []string) error {
			id, err := strconv.Atoi(a[0])
			if err != nil {
				return err
			}
			_, err = unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
			return err
		},
		"shm-own": func([]string) error {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
			if err != nil {
				return err
			}
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			return err
		},
		"memfd": func([]string) error { _, err := unix.MemfdCreate("x", 0); return err },
		"ptmx":  func([]string) error { return opened("/dev/ptmx", os.O_RDWR) },
		"open-rw": func(a []string) error {
			return opened(a[0], os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK)
		},
		"setuid": func(a []string) error {
			out, err := exec.Command(a[0], "-u").Output()
			if err != nil {
				return err
			}
			if strings.TrimSpace(string(out)) == strconv.Itoa(os.Geteuid()) {
				return errors.New("same user")
			}
			return nil
		},
	}
}

func forkUnshared(flags uintptr) error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: flags}
	return cmd.Run()
}

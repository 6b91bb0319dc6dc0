package command_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/session"
)

// written describes the output of a command: its length, its digest, and its beginning.
type written struct {
	hash.Hash
	n     int64
	begin []byte
}

func newWritten() *written { return &written{Hash: sha256.New()} }

func (w *written) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	w.begin = append(w.begin, p[:min(len(p), 500-len(w.begin))]...)
	return w.Hash.Write(p)
}

func (w *written) String() string {
	return fmt.Sprintf("%d bytes, %x, %q", w.n, w.Sum(nil)[:8], w.begin)
}

// plainPipe returns the output of a script that writes both streams to one pipe until its
// end, without acode.
func plainPipe(t *testing.T, script string) *written {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), w, w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	out, read := newWritten(), make(chan error, 1)
	go func() {
		_, err := io.Copy(out, r)
		read <- err
	}()
	err = cmd.Wait()
	eventually(t, "the pipe to be empty", func() bool { return pending(t, r) == 0 })
	// a process that the script left behind may keep the pipe
	err = errors.Join(err, r.SetReadDeadline(time.Unix(1, 0)))
	if readErr := <-read; !errors.Is(readErr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, readErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pending counts the bytes that a pipe holds.
func pending(t *testing.T, r *os.File) int {
	t.Helper()
	raw, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if ctrl := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); errors.Join(ctrl, err) != nil {
		t.Fatal(ctrl, err)
	}
	return n
}

// kept returns the output of the command of key that acode kept.
func (s *stage) kept(key string) *written {
	s.t.Helper()
	stdout, stderr, err := s.Output(key)
	if err != nil {
		s.t.Fatal(err)
	}
	defer stdout.Close()
	defer stderr.Close()
	out := newWritten()
	if _, err := io.Copy(out, io.MultiReader(stdout, stderr)); err != nil {
		s.t.Fatal(err)
	}
	return out
}

const everything = "CMDTEST_MAX=4294967296"

// C5: the kept bytes of a command are those that it writes to a plain pipe. This holds
// for any bytes, for any number, and if a child keeps the pipe. The child ends with its
// directory. With -bulk=1073741824 the first output is a GiB.
func TestOutputAsThroughAPlainPipe(t *testing.T) {
	for name, script := range map[string]string{
		"much":         fmt.Sprintf("seq 1000000000 | head -c %d; echo end >&2", *bulk),
		"no newline":   `head -c 5000000 /dev/zero | tr '\0' x; printf end`,
		"binary":       `seq 400000 | gzip -nc; head -c 70000 /dev/zero; printf '\377\376\000\r\032\004' >&2; seq 100000 | gzip -nc >&2`,
		"nothing":      `true`,
		"truncation":   `seq 1000; echo a > /dev/stdout; seq 1000 >&2; echo b > /dev/stderr; : > /dev/stdout; truncate -s 0 /dev/stdout 2>/dev/null; seq 1000 > /proc/self/fd/2; echo c | tee /dev/stderr; exec > /dev/stdout; echo d`,
		"child keeps":  `> hold; (seq 200000; > said; while test -e hold; do sleep 0.01; done) & until test -e said; do sleep 0.01; done; echo leader`,
		"child closes": `> hold; (exec >&- 2>&-; while test -e hold; do sleep 0.01; done) & (setsid sh -c 'seq 1000; echo err >&2; > said') & until test -e said; do sleep 0.01; done; echo leader`,
		"both streams": `i=0; while [ $i -lt 200 ]; do echo out $i; sh -c "echo err $i >&2"; awk "BEGIN { print \"awk\" }"; i=$((i+1)); done`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, everything)
			rec := s.run(s.sh(s.key, script))
			want := plainPipe(t, script)
			if got := s.kept(s.key); got.String() != want.String() || rec.State != session.CommandFinished || rec.Exit != 0 || rec.Lost != "" {
				t.Errorf("got  %v\nwant %v\n%+v", got, want, rec)
			}
			t.Logf("%d bytes", want.n)
		})
	}
}

// C5: a reader stops, as by Ctrl-Z or on a busy machine. The command waits once the pipe
// is full, and continues later.
func TestReaderThatStops(t *testing.T) {
	script := fmt.Sprintf("> up; until test -e go; do sleep 0.01; done; seq 1000000000 | head -c %d; echo end >&2; > ended", *bulk)
	s := newStage(t, everything)
	req := s.sh(s.key, script)
	done := s.begin(s.Runner, req, "up")
	pipe, err := os.OpenFile(filepath.Join(s.dir, command.Stem(req.Key)+".out-pipe"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	size, err := unix.FcntlInt(pipe.Fd(), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		t.Fatal(err)
	}
	supervisor := s.supervisorPID()
	// on a busy machine the command may end before all stops
	for i := 0; i < 5 && !s.has("ended"); i++ {
		if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		s.touch("go")
		eventually(t, "the pipe to be full", func() bool { return pending(t, pipe) > size-8192 || i > 0 && s.has("ended") })
		if rec, err := s.Look(s.ctx(), req.Key); err != nil || rec.State != session.CommandRunning && !s.has("ended") {
			t.Errorf("while its reader stands: got %+v, %v", rec, err)
		}
		if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pipe to be emptied", func() bool { return pending(t, pipe) < size/2 })
	}
	if r := <-done; r.err != nil || r.rec.State != session.CommandFinished || r.rec.Exit != 0 {
		t.Errorf("got %+v", r)
	}
	want := plainPipe(t, strings.Replace(script, "until test -e go; do sleep 0.01; done; ", "", 1))
	if got := s.kept(s.key); got.String() != want.String() {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Both streams are in the order that script(1) records: of one process, of many, and of
// processes that buffer.
func TestOrderAsRecorded(t *testing.T) {
	s := newStage(t)
	for i, script := range []string{
		`i=0; while [ $i -lt 500 ]; do echo $i; echo $i >&2; i=$((i+1)); done`,
		`i=0; while [ $i -lt 100 ]; do sh -c "echo out $i"; sh -c "echo err $i >&2"; i=$((i+1)); done`,
		`{ echo a; echo b >&2; } 2>&1; echo c > /dev/stderr; echo d > /dev/stdout; (echo e >&2); printf f; printf g >&2; seq 2000; seq 2000 >&2; ls /no/such/file; echo h`,
		`awk 'BEGIN { for (i = 0; i < 300; i++) { print "out " i; fflush(); print "err " i > "/dev/stderr"; fflush("/dev/stderr") } }'`,
		`dd if=/dev/zero bs=1 count=1 status=none | tr '\0' z; seq 100 | while read n; do echo "line $n"; [ $((n % 3)) = 0 ] && echo "third $n" >&2; done; exit 0`,
	} {
		want := recorded(t, s.ws, "{ "+script+"\n}; exit 0")
		for key, req := range map[string]session.CommandRequest{"pipe": s.sh(fmt.Sprint("pipe", i), script), "terminal": s.tty(fmt.Sprint("terminal", i), script)} {
			s.run(req)
			if got, _ := s.output(req.Key); got != want {
				t.Errorf("%s through a %s: got %d bytes, script has %d:\n%.300q\n%.300q", script, key, len(got), len(want), got, want)
			}
		}
	}
}

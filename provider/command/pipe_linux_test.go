package command_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/acode-dev/acode/internal/crash"
	"github.com/acode-dev/acode/provider/command"
	"github.com/acode-dev/acode/redact"
	"github.com/acode-dev/acode/session"
)

// C5: a script that opens its outputs again, and would truncate a file, erases nothing.
func TestTruncationErasesNothing(t *testing.T) { each(t, truncationErasesNothing) }

func truncationErasesNothing(t *testing.T, s *stage) {
	s.run(s.sh(s.key, `echo a >&2; echo b > /dev/stderr; echo c; echo d > /dev/stdout; echo e >&2; truncate -s 0 /proc/self/fd/1 2>/dev/null; echo f`))
	if out, _ := s.output(s.key); out != "a\nb\nc\nd\ne\nf\n" {
		t.Errorf("got %q", out)
	}
}

// Both streams share a pipe, so that their lines are in the order in which they were
// written.
func TestOrderOfBothStreams(t *testing.T) { each(t, orderOfBothStreams) }

func orderOfBothStreams(t *testing.T, s *stage) {
	s.run(s.sh(s.key, `i=0; while [ $i -lt 300 ]; do echo $i; echo $i >&2; i=$((i+1)); done`))
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "%d\n%d\n", i, i)
	}
	if out, errs := s.output(s.key); out != want.String() || errs != "" {
		t.Errorf("got %d bytes and %q, want %d in order", len(out), errs, want.Len())
	}
}

// Output may be any bytes: no newline at the end, zeros, invalid text.
func TestOutputIsBytes(t *testing.T) { each(t, outputIsBytes) }

func outputIsBytes(t *testing.T, s *stage) {
	s.run(s.sh(s.key, `head -c 300000 /dev/urandom | tee copy; head -c 5000 /dev/zero | tee -a copy >&2; printf end | tee -a copy`))
	want, err := os.ReadFile(filepath.Join(s.ws, "copy"))
	if out, _ := s.output(s.key); err != nil || !bytes.Equal([]byte(out), want) {
		t.Errorf("got %d bytes, want %d: %v", len(out), len(want), err)
	}
}

// C5: a child that the command leaves behind keeps its pipe. The command is still over,
// and the child can continue to write.
func TestChildKeepsThePipe(t *testing.T) { each(t, childKeepsThePipe) }

func childKeepsThePipe(t *testing.T, s *stage) {
	rec := s.run(s.sh(s.key, `(sh -c 'echo $PPID > pid'; until test -e go; do sleep 0.01; done; head -c 3000000 /dev/zero && > wrote; until test -e end; do sleep 0.01; done) & echo started`))
	if out, _ := s.output(s.key); out != "started\n" || rec.State != session.CommandFinished || len(rec.Left) == 0 {
		t.Errorf("got %q, %+v", out, rec)
	}
	s.touch("go")
	eventually(t, "the child to write on", func() bool { return s.has("wrote") })
	if out, _ := s.output(s.key); out != "started\n" {
		t.Errorf("got %q after the end", out[:min(len(out), 50)])
	}
	child := s.pidIn("pid")
	s.touch("end")
	eventually(t, "the child to end", func() bool { return !running(child) })
}

// C5: acode, its supervisor or both are killed. The command gets no signal. None of its
// output is lost if it still lives when acode comes back.
func TestWriterOutlivesItsReaders(t *testing.T) {
	for _, who := range []string{"supervisor", "acode", "both", "supervisor of a terminal", "acode at a terminal", "both at a terminal"} {
		t.Run(who, func(t *testing.T) {
			s := newStage(t)
			who, terminal, _ := strings.Cut(who, " ")
			req := s.sh(t.TempDir(), `trap 'echo pipe >> ledger' PIPE; echo first; > up; until test -e go; do sleep 0.01; done
				seq 30000; seq 30000 >&2; echo ran >> ledger; > wrote; until test -e end; do sleep 0.01; done; echo last`)
			req.TTY = terminal != ""
			cmd := s.client([]session.CommandRequest{req})
			eventually(t, "the command to start", func() bool { return s.has("up") })
			supervisor := s.supervisorPID()
			if who != "supervisor" {
				_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
			}
			if who != "acode" {
				_ = syscall.Kill(supervisor, syscall.SIGKILL)
				s.supervisorGone()
			}
			s.touch("go")
			eventually(t, "the command to write", func() bool { return s.has("wrote") })
			later := s.runner(2)
			done := make(chan result, 1)
			go func() {
				rec, err := later.Wait(s.ctx(), req.Key)
				done <- result{rec, err}
			}()
			var want strings.Builder
			want.WriteString("first\n")
			for range 2 {
				for i := range 30000 {
					fmt.Fprintln(&want, i+1)
				}
			}
			eventually(t, "the output to be kept", func() bool {
				info, err := os.Stat(filepath.Join(s.dir, command.Stem(req.Key)+".out"))
				return err == nil && info.Size() >= int64(want.Len())
			})
			s.touch("end")
			r := <-done
			if state := map[bool]session.CommandState{true: session.CommandFinished, false: session.CommandUnknown}[who == "acode"]; r.err != nil || r.rec.State != state {
				t.Errorf("got %+v, want %s", r, state)
			}
			want.WriteString("last\n")
			if out, _ := s.output(req.Key); out != want.String() || s.ledger() != wrote {
				t.Errorf("%d bytes, want %d; ledger %q", len(out), want.Len(), s.ledger())
			}
			// a living acode took over, and exits when the command has ended
			_ = cmd.Wait()
			if rec, err := s.Look(s.ctx(), req.Key); err != nil || strings.Contains(rec.Why, "lost") {
				t.Errorf("nothing was lost, but it says %+v, %v", rec, err)
			}
		})
	}
}

// C5: if the command ends before acode comes back, the content of its pipe is lost, and
// the record says so.
func TestLostOutputIsTold(t *testing.T) {
	s := newStage(t)
	req := s.sh(t.TempDir(), `> up; until test -e go; do sleep 0.01; done; echo gone; echo ran >> ledger`)
	cmd := s.client([]session.CommandRequest{req})
	eventually(t, "the command to start", func() bool { return s.has("up") })
	supervisor := s.supervisorPID()
	_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	_ = syscall.Kill(supervisor, syscall.SIGKILL)
	s.touch("go")
	eventually(t, "the command to end", func() bool {
		rec, err := s.Look(s.ctx(), req.Key)
		return err == nil && rec.State == session.CommandUnknown
	})
	rec, err := s.runner(2).Wait(s.ctx(), req.Key)
	if err != nil || !strings.Contains(rec.Why, "its last output may be lost") || s.ledger() != wrote {
		t.Errorf("got %+v, %v, ledger %q", rec, err, s.ledger())
	}
}

var bulk = flag.Int64("bulk", 48<<20, "bytes that go through a pipe whose readers are killed")

// carryMain moves the output in the pipe at a path until it is killed, or no writer is
// left.
func carryMain() int {
	command.Carry(os.Getenv("CMDTEST_DIR"))
	return 0
}

// Output that its file does not take is lost, and the record says how many bytes. The
// command does not notice.
func TestOutputThatDoesNotFit(t *testing.T) {
	const limit, all = 65536, 300_000
	s := newStage(t, fmt.Sprintf("CMDTEST_FSIZE=%d", limit))
	rec := s.run(s.sh(s.key, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo ran >> ledger; exit 3", all)))
	lost := fmt.Sprintf("%d bytes that the command wrote could not be kept: file too large", all-limit)
	if rec.State != session.CommandFinished || rec.Exit != 3 || rec.Lost != lost || s.ledger() != wrote {
		t.Errorf("got %+v, ledger %q, want %q", rec, s.ledger(), lost)
	}
	if out, _ := s.output(s.key); out != strings.Repeat("x", limit)+"\n[acode: "+lost+"]\n" {
		t.Errorf("%d bytes of output, the end is %q", len(out), out[max(0, len(out)-100):])
	}
}

// A follower of a command sees every byte of it while it runs, in little memory, and no
// secret.
func TestFollow(t *testing.T) {
	const count = 2_000_000
	s := newStage(t, "CMDTEST_MAX=1073741824")
	req := s.sh(s.key, fmt.Sprintf("echo first; > up; until test -e go; do sleep 0.01; done; seq %d; printf 'S3cr3t/Val'; > half; until test -e end; do sleep 0.01; done; echo ue+42; echo last", count))
	done := s.begin(s.Runner, req, "up")
	want, got := sha256.New(), sha256.New()
	fmt.Fprintln(want, "first")
	for i := range count {
		fmt.Fprintln(want, i+1)
	}
	fmt.Fprint(want, "***e+42\nlast\n")
	masked := redact.New([]string{"S3cr3t/Value+42"}).Stream(got)
	var before, most runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.touch("go")
		eventually(t, "half a secret", func() bool {
			var now runtime.MemStats
			if runtime.ReadMemStats(&now); now.HeapAlloc > most.HeapAlloc {
				most = now
			}
			return s.has("half")
		})
		s.touch("end")
	}()
	over, err := command.Follow(s.ctx(), s.dir, s.key, true, masked, masked)
	<-watched
	if err = errors.Join(err, masked.Close()); err != nil || !over || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("Follow: got %v, %v; the same: %v", over, err, bytes.Equal(got.Sum(nil), want.Sum(nil)))
	}
	if r := <-done; r.err != nil || r.rec.Exit != 0 {
		t.Errorf("got %+v", r)
	}
	if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d bytes more were in memory", grown)
	}
	if _, err := command.Follow(s.ctx(), s.dir, "never", true, masked, masked); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Follow of a command that was never started: got %v", err)
	}
}

// heldPipe returns the path of an output and the command's end of its pipe. A reader
// keeps the pipe until the test ends: without it the content would end with the writer.
func heldPipe(t *testing.T) (path string, end *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "out")
	end, err := command.OpenEnd(path)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(path+"-pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return path, end
}

// C5: a reader is killed before, in or after the call that moves the first bytes to the
// file. The next reader finds exactly the bytes that are not in the file.
func TestReaderKilledAtAMove(t *testing.T) {
	for _, when := range []crash.When{crash.Before, crash.Inside, crash.After} {
		t.Run(string(when), func(t *testing.T) {
			path, end := heldPipe(t)
			if _, err := end.WriteString("first\n"); err != nil {
				t.Fatal(err)
			}
			carry := crash.Spec{Argv: []string{os.Args[0]}, Env: []string{"CMDTEST_ROLE=carry", "CMDTEST_DIR=" + path}, Roots: []string{filepath.Dir(path)},
				Counts: func(c crash.Call) bool {
					return c.Path == path && (c.Kind == crash.KindCopy || c.Kind == crash.KindWrite)
				}}
			killed := carry
			killed.At = crash.Point{Role: crash.RoleAcode, N: 1, When: when}
			tracer := crash.NewTracer()
			defer tracer.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if res, err := tracer.Run(ctx, killed); err != nil || !res.Struck {
				t.Fatalf("Run: got %+v, %v, want a kill", res, err)
			}
			_, err := end.WriteString("second\n")
			if err := errors.Join(err, end.Close()); err != nil {
				t.Fatal(err)
			}
			if res, err := tracer.Run(ctx, carry); err != nil || res.ExitCode != 0 {
				t.Fatalf("Run: got %+v, %v", res, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != "first\nsecond\n" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// C5: one reader after the other is killed, at any instant, often while the next one is
// there already. The bytes are those of a plain pipe: none is lost, doubled or moved.
func TestReadersKilledBetweenMoves(t *testing.T) {
	path, end := heldPipe(t)
	seed := [32]byte{1: byte(time.Now().UnixNano()), 2: byte(time.Now().UnixNano() >> 8)}
	t.Logf("seed %v", seed[1:3])
	want, source := sha256.New(), rand.NewChaCha8(seed)
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		defer end.Close()
		if _, err := io.Copy(io.MultiWriter(end, want), io.LimitReader(source, *bulk)); err != nil {
			t.Errorf("write: %v", err)
		}
	}()
	carrier := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"CMDTEST_ROLE=carry", "CMDTEST_DIR=" + path, "GORACE=atexit_sleep_ms=0"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kills := 0
	pause := time.NewTimer(0)
	defer pause.Stop()
	for last := carrier(); !over.Load(); kills++ {
		next := carrier()
		pause.Reset(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		<-pause.C
		_ = last.Process.Kill()
		go func(c *exec.Cmd) { _ = c.Wait() }(last)
		last = next
		t.Cleanup(func() { _ = next.Process.Kill() })
	}
	// the last reader takes the rest
	if err := carrier().Wait(); err != nil {
		t.Fatal(err)
	}
	got := sha256.New()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := io.Copy(got, f)
	if err != nil || n != *bulk || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes came, of %d, %v; the same: %v", n, *bulk, err, bytes.Equal(got.Sum(nil), want.Sum(nil)))
	}
	t.Logf("%d readers were killed", kills)
}

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// random returns n characters that no one can compress.
func random(r *rand.ChaCha8, n int) string {
	raw := make([]byte, n)
	_, _ = r.Read(raw) // it returns no error
	return base64.RawURLEncoding.EncodeToString(raw)[:n]
}

// thousands makes a conversation of turns that each have a call and a result of 1,000
// bytes: a search with a long pattern that finds lines. Its script has no answer at the
// end.
func (b *bench) thousands(name string, turns int) (site, error) {
	const perFile, bytes, lines = 100, 1000, 4
	r := rand.NewChaCha8([32]byte{})
	files := map[string]string{}
	for at := 0; at < turns; at += perFile {
		var text strings.Builder
		for i := range perFile {
			for range lines {
				fmt.Fprintf(&text, "%05d %s\n", at+i, random(r, bytes/lines-17))
			}
		}
		files[fmt.Sprintf("f%d", at/perFile)] = text.String()
	}
	return b.talk(name, turns, 0, false, files, func(i int) []call {
		return []call{{"a", "search", map[string]any{"path": fmt.Sprintf("f%d", i/perFile), "pattern": fmt.Sprintf("^%05d |%s", i, random(r, bytes-60))}}}
	})
}

// overScript runs acode until its script has no more replies.
func (s site) overScript(ctx context.Context, args ...string) error {
	out, err := s.command(ctx, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("its script has")) {
		return fmt.Errorf("acode %s: %w: %s", args[0], err, out)
	}
	return nil
}

// turnBytes measures the growth of the database with the turns of a conversation.
func (b *bench) turnBytes(ctx context.Context) error {
	var sizes []int64
	all := []int{100, manyTurns / 2, manyTurns}
	for _, turns := range all {
		s, err := b.thousands(fmt.Sprintf("turn-bytes-%d", turns), turns)
		if err != nil {
			return err
		}
		if err := s.overScript(ctx, "run", "--plan", s.plan()); err != nil {
			return err
		}
		st, err := openStore(ctx, s.home()) // it copies the log into the database
		if err != nil {
			return err
		}
		if err := st.Close(); err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(s.home(), "acode.db"))
		if err != nil {
			return err
		}
		sizes = append(sizes, info.Size())
	}
	for i := range all[1:] {
		b.report.count(fmt.Sprintf("bytes of acode.db per turn, turns %d to %d", all[i], all[i+1]), float64(sizes[i+1]-sizes[i])/float64(all[i+1]-all[i]), 5000, "a call and a result of 1,000 B; log copied back")
	}
	return nil
}

const (
	fewMessages   = 10
	manyMessages  = 2000
	requestStarts = 15
)

// firstRequests compares the time from the start of a resume to its first request with a
// program that does nothing, and that of a long conversation with the reading of its
// rows.
func (b *bench) firstRequests(ctx context.Context) error {
	var sites [2]site
	var pipes [2]*requestPipe
	for i, messages := range []int{fewMessages, manyMessages} {
		var err error
		if sites[i], err = b.thousands(fmt.Sprintf("first-request-%d", messages), messages/2); err != nil {
			return err
		}
		if err := sites[i].overScript(ctx, "run", "--plan", sites[i].plan()); err != nil {
			return err
		}
		if pipes[i], err = sites[i].pipe(); err != nil {
			return err
		}
		defer pipes[i].file.Close()
	}
	var empty, rows, both sample
	var first [2]sample
	for range requestStarts {
		if err := empty.timed(exec.CommandContext(ctx, b.empty).Run); err != nil {
			return err
		}
		for i, s := range sites {
			began := nanos()
			pipes[i].armed <- struct{}{}
			if err := s.overScript(ctx, "resume"); err != nil {
				return err
			}
			first[i] = append(first[i], pipes[i].drained()-began)
		}
		if err := rows.timed(func() error { return sites[1].readRows(ctx) }); err != nil {
			return err
		}
		both = append(both, rows[len(rows)-1]+first[0][len(first[0])-1])
	}
	b.report.ratio("resume, process start to first request, 10 messages / empty Go program", first[0], empty, 15)
	b.report.ratio("… 2,000 messages / its rows read and hashed, and 10 messages", first[1], both, 1.5, "rows alone "+rows.String())
	return nil
}

// requestPipe is a pipe that gets the requests to the model. A request is as long as its
// conversation, so something must read it.
type requestPipe struct {
	file *os.File
	// begins the wait for a request
	armed chan struct{}
	// gets the time of its first bytes when all of it is read
	first chan int64
}

// pipe makes the model of s write its requests to a pipe.
func (s site) pipe() (*requestPipe, error) {
	at := filepath.Join(s.dir, "requests")
	if err := errors.Join(unix.Mkfifo(at, 0o600), s.configure(at)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	p := &requestPipe{file: f, armed: make(chan struct{}), first: make(chan int64)}
	if err == nil {
		go p.read()
	}
	return p, err
}

// read reads requests until the pipe is closed. A NUL, which no request has, ends one.
func (p *requestPipe) read() {
	buffer := make([]byte, 1<<20)
	for range p.armed {
		for at := int64(0); ; {
			n, err := p.file.Read(buffer)
			if at == 0 {
				at = nanos()
			}
			if err != nil || bytes.IndexByte(buffer[:n], 0) >= 0 {
				p.first <- at
				break
			}
		}
	}
}

// drained returns the time of the first bytes of the request, after all of it was read.
func (p *requestPipe) drained() int64 {
	_, _ = p.file.Write([]byte{0}) // the reader sees a pipe that is closed
	return <-p.first
}

// query reads rows of the database of s.
func (s site) query(ctx context.Context, text string, row func(*sql.Rows) error) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.home(), "acode.db")+"?mode=ro")
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	for rows.Next() && err == nil {
		err = row(rows)
	}
	return errors.Join(err, rows.Err(), rows.Close(), db.Close())
}

// readRows reads the events of s and the replies that they name, and hashes each once.
func (s site) readRows(ctx context.Context) error {
	sum := sha256.New()
	var content []byte
	n := 0
	take := func(r *sql.Rows) error {
		n++
		if err := r.Scan(&content); err != nil {
			return err
		}
		sum.Reset()
		sum.Write(content)
		_ = sum.Sum(nil) // only its time counts
		return nil
	}
	err := errors.Join(s.query(ctx, "SELECT payload FROM events ORDER BY pos", take),
		s.query(ctx, "SELECT b.data FROM events e JOIN blobs b ON b.hash = unhex(json_extract(e.payload, '$.blob.hash')) WHERE e.type = 'ModelAnswered'", take))
	if err == nil && n < 3*manyMessages/2 {
		err = fmt.Errorf("only %d rows were read", n)
	}
	return err
}

// asked returns the times of the requests to the model, in microseconds.
func (s site) asked(ctx context.Context) (times []int64, err error) {
	if err := s.load(ctx); err != nil { // it also sets the driver up
		return nil, err
	}
	err = s.query(ctx, "SELECT time_us FROM events WHERE type = 'ModelAsked' ORDER BY pos", func(r *sql.Rows) error {
		var us int64
		err := r.Scan(&us)
		times = append(times, us)
		return err
	})
	return times, err
}

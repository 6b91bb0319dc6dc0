package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// superuser is the role that initdb makes.
const superuser = "postgres"

// files is the source of every cluster of a process.
type files struct {
	bin  string
	acct *account
	// data is made by initdb and never started.
	data string
	// keep must stay referenced: its files are removed when its pipe is
	// garbage-collected.
	keep *supervisor
}

// template runs initdb once per process. Its files are removed with the process.
var template = sync.OnceValues(makeTemplate)

func makeTemplate() (*files, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f := &files{bin: bin, acct: acct}
	// The supervisor ends with the process.
	if f.keep, err = supervise(acct, "", func(root string) []string { return server(bin, root) }); err != nil {
		return nil, err
	}
	f.data = filepath.Join(f.keep.root, "data")
	_, err = run(acct.command(f.program("initdb"), "--pgdata", f.data, "--no-sync", "--auth=trust",
		"--username="+superuser, "--locale=C", "--encoding=UTF8"))
	return f, err
}

// program returns the path of one of the server's programs.
func (f *files) program(name string) string { return filepath.Join(f.bin, name) }

// server returns the command line of the server whose folder is root.
func server(bin, root string) []string {
	return []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(root, "data")}
}

// copyTo makes a cluster at data from the files at from, which belong to a stopped
// server. The account copies them itself, so that its supervisor can remove them.
func (f *files) copyTo(data, from string) error {
	if _, err := run(f.acct.command("cp", "-R", from, data)); err != nil {
		return fmt.Errorf("copy cluster: %w", err)
	}
	return nil
}

// write replaces a small file of the account.
func (f *files) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return f.acct.own(path)
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// options are the flags.
type options struct {
	dir, programs, modules string
	client                 string
	kills, controls        int
	repeats                int
	only                   int
	part                   string
	seed                   uint64
}

func main() {
	others := map[string]func([]string) error{spySwitch: spyMain, scriptedSwitch: scriptedMain, modelSwitch: modelMain}
	if len(os.Args) > 1 && others[os.Args[1]] != nil {
		exitOn(others[os.Args[1]](os.Args[2:]))
		return
	}
	var o options
	flag.StringVar(&o.client, "client", "claude", "claude or codex")
	flag.StringVar(&o.dir, "dir", "", "directory for the runs; empty for a new one below the temporary directory")
	flag.StringVar(&o.programs, "programs", "bin", "directory with acode and acode-agent")
	flag.StringVar(&o.modules, "modules", "", "node_modules with the client; empty to install it with npm into bin/e2e")
	flag.IntVar(&o.kills, "kills", 26, "how many kills")
	flag.StringVar(&o.part, "part", "", "carry out only this part: ids, late, kills or control")
	flag.IntVar(&o.controls, "controls", 12, "how many kills with the client's own tools")
	flag.IntVar(&o.repeats, "repeats", 4, "how many kills at each time after an answer")
	flag.IntVar(&o.only, "only", 0, "carry out only the kill of this number")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the moments")
	flag.Parse()
	exitOn(o.run())
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// run carries out the parts. Each prints its figures.
func (o options) run() error {
	a, ok := agents()[o.client]
	if !ok {
		return fmt.Errorf("the client %q is not known", o.client)
	}
	if err := o.prepare(a); err != nil {
		return err
	}
	var errs []error
	for _, part := range []struct {
		name string
		do   func(agent) error
	}{{"ids", o.identify}, {"late", o.forgets}, {"kills", o.kill}, {"control", o.control}} {
		if o.part == "" || o.part == part.name {
			errs = append(errs, part.do(a))
		}
	}
	return errors.Join(errs...)
}

// prepare fills in the flags that are empty.
func (o *options) prepare(a agent) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "acode-e2e-"); err != nil {
			return err
		}
	}
	if o.modules == "" {
		if err := install(a, filepath.Join(o.programs, "e2e")); err != nil {
			return err
		}
		o.modules = filepath.Join(o.programs, "e2e", "node_modules")
	}
	for _, path := range []*string{&o.dir, &o.programs, &o.modules} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	return nil
}

// install installs the client with npm.
func install(a agent, dir string) error {
	lines := [][]string{{"npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", dir, a.module + "@" + a.version}}
	if a.script != "" { // npm may leave the scripts of modules out
		lines = append(lines, []string{"node", filepath.Join(dir, "node_modules", a.module, a.script)})
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, line := range lines {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(line, " "), err)
		}
	}
	return nil
}

// kill kills the client with acode's tools.
func (o options) kill(a agent) error {
	bad, sum := o.series(a, o.kills, false)
	fmt.Printf("%s with acode's tools: %d kills, %d with a repeated effect, a lost or a wrong result; %d results recovered, %d told, %d unknown\n",
		a.name, o.kills, bad, sum.recovered, sum.told, sum.unknown)
	if bad > 0 {
		return errors.New("effects were repeated, or results lost or wrong")
	}
	return nil
}

// leastControl is how many kills must show a fault if the client uses its own tools.
// Otherwise the kills prove nothing.
const leastControl = 3

// control kills the client with its own tools.
func (o options) control(a agent) error {
	bad, _ := o.series(a, o.controls, true)
	fmt.Printf("%s with its own tools: %d kills, %d with a repeated effect or a lost result\n", a.name, o.controls, bad)
	if bad < leastControl {
		return fmt.Errorf("the control shows %d faults, want %d", bad, leastControl)
	}
	return nil
}

// series carries out some kills and counts those with a fault.
func (o options) series(a agent, n int, own bool) (bad int, sum verdict) {
	for _, t := range trials(n, rand.New(rand.NewPCG(o.seed, 0))) {
		if o.only > 0 && t.number != o.only {
			continue
		}
		v, err := o.carryOut(a, t, own)
		for errors.Is(err, errMissed) && t.reply > 1 {
			t.reply--
			v, err = o.carryOut(a, t, own)
		}
		fmt.Printf("%s: recovered %d, told %d, unknown %d %s\n", t, v.recovered, v.told, v.unknown, v)
		if err != nil {
			fmt.Println("  ", err)
		}
		if err != nil || v.bad() {
			bad++
		}
		sum.recovered, sum.told, sum.unknown = sum.recovered+v.recovered, sum.told+v.told, sum.unknown+v.unknown
	}
	return bad, sum
}

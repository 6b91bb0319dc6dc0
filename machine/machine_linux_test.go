package machine_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/acode-dev/acode/machine"
)

// Every process of one machine and one PID namespace gets the same answers, which are the kernel's.
func TestNamespaceAndBootID(t *testing.T) {
	if os.Getenv("MACHINE_TEST_CHILD") != "" {
		ns, err := machine.Namespace()
		boot, bootErr := machine.BootID()
		fmt.Println("child", ns, boot, err, bootErr)
		return
	}
	ns, err := machine.Namespace()
	boot, bootErr := machine.BootID()
	if ns == 0 || len(boot) != 36 || err != nil || bootErr != nil {
		t.Fatalf("Namespace, BootID: got %d, %q, %v, %v", ns, boot, err, bootErr)
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || link != fmt.Sprintf("pid:[%d]", uint32(ns)) {
		t.Errorf("Namespace: got %d, want that of %s, %v", ns, link, err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNamespaceAndBootID$")
	cmd.Env = append(os.Environ(), "MACHINE_TEST_CHILD=1")
	out, err := cmd.Output()
	if want := fmt.Sprintln("child", ns, boot, nil, nil); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("in a child: got %s, %v, want %s", out, err, want)
	}
}

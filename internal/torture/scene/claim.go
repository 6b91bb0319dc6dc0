package scene

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Claim is the knowledge about one attempt of a step's command, from its claim alone.
type Claim struct {
	// Key is the attempt's key.
	Key string
	// Supervisor is the pid of the process that started it.
	Supervisor int
	// Ended means that its end was recorded.
	Ended bool
	path  string
}

// ExitAt is the offset of the record of a command's end in its claim.
const ExitAt = 1536

const (
	headerAt = 0
	// blockHead holds length and digest, before the text of a block.
	blockHead = 4 + 32
)

// LastClaim returns the claim of the last attempt of a step; false means that there is
// none.
func (p Place) LastClaim(step string) (last Claim, found bool, err error) {
	names, err := filepath.Glob(filepath.Join(p.Home(), "commands", "*", "*.claim"))
	if err != nil {
		return last, false, err
	}
	most := -1
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return last, false, fmt.Errorf("read claim: %w", err)
		}
		var h struct {
			Key        string `json:"key"`
			Supervisor struct {
				PID int `json:"pid"`
			} `json:"supervisor"`
		}
		var n int
		if !block(b, headerAt, &h) {
			continue
		}
		_, attempt, its := strings.Cut(h.Key, ":"+step+"/main:")
		if _, err := fmt.Sscan(attempt, &n); !its || err != nil || n <= most {
			continue
		}
		var exit struct {
			Unknown string `json:"unknown"`
		}
		ended := block(b, ExitAt, &exit) && exit.Unknown == ""
		last, found, most = Claim{Key: h.Key, Supervisor: h.Supervisor.PID, Ended: ended, path: name}, true, n
	}
	return last, found, nil
}

// block reads the block at an offset of a claim. It reports whether there is a whole
// block.
func block(b []byte, at int, v any) bool {
	if len(b) < at+blockHead {
		return false
	}
	n := int(binary.BigEndian.Uint32(b[at:]))
	b = b[at+blockHead:]
	return n > 0 && n <= len(b) && json.Unmarshal(b[:n], v) == nil
}

// Output returns the stored output of the command, and whether the record says that its
// end may be lost.
func (c Claim) Output() (text string, torn bool, err error) {
	at := strings.TrimSuffix(c.path, ".claim") + ".out"
	b, err := os.ReadFile(at)
	if err != nil {
		return "", false, fmt.Errorf("read output: %w", err)
	}
	_, err = os.Lstat(at + "-pipe")
	return string(b), err == nil, nil
}

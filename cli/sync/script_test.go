package syncer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/acode-dev/acode/cli"
	"github.com/acode-dev/acode/internal/pgtest"
	"github.com/acode-dev/acode/internal/pgwire"
	"github.com/acode-dev/acode/internal/script"
)

// TestMain lets the test binary be both programs, supervisors included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"acode":      func() { os.Exit(cli.Main(context.Background(), os.Args[1:])) },
		"acode-sync": func() { os.Exit(Main(context.Background(), os.Args[1:])) },
	})
}

// TestScripts runs the command line as typed. Each script has its own database behind its
// own network.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			if err := script.Setup(env); err != nil {
				return err
			}
			database := pgtest.Database(t)
			u, err := url.Parse(database)
			if err != nil {
				return err
			}
			s := &server{t: t, direct: database, proxy: pgwire.New(t, u.Host), secret: "hunter22"}
			env.Values[serverKey{}] = s
			repository, err := filepath.Abs("../..")
			if err != nil {
				return err
			}
			env.Setenv("REPOSITORY", repository)
			// Roles belong to the cluster, so that each script needs its own.
			env.Setenv("DEVICE", "d_"+strings.ToLower(rand.Text()))
			env.Setenv("ACODE_SYNC_LISTEN", "unix:"+filepath.Join(env.WorkDir, "http"))
			address, err := s.proxy.URL(database)
			env.Setenv("ACODE_POSTGRES_URL", address)
			return err
		},
		Cmds:        verbs(),
		Condition:   script.Condition,
		TestWork:    os.Getenv("ACODE_TEST_KEEP") != "",
		WorkdirRoot: os.Getenv("ACODE_TEST_KEEP"),
	})
}

type serverKey struct{}

// server is the server of one script.
type server struct {
	t *testing.T
	// direct is its address without the network between.
	direct string
	// secret is the password of the role that was added last.
	secret string
	proxy  *pgwire.Proxy
}

func own(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

func verbs() map[string]script.Verb {
	all := script.Verbs()
	maps.Copy(all, map[string]script.Verb{
		"net":        script.Usage(1, "net cut|silent|restore", network),
		"sql":        script.Usage(1, "sql QUERY", query),
		"until_sql":  script.Usage(2, "until_sql RESULT QUERY", untilQuery),
		"http":       script.Usage(1, "http PATH", get),
		"until_http": script.Usage(2, "until_http PATH TEXT", untilGet),
		"dropped":    script.Usage(0, "dropped", dropped),
		"idle":       script.Usage(0, "idle", idle),
		"password":   script.Usage(0, "password", password),
		"role":       script.Usage(0, "role [NAME]", role),
		"database":   script.Usage(0, "database", database),
		"ratio":      script.Usage(2, "ratio LIMIT COMMAND...", ratio),
		"agree":      script.Usage(1, "agree STATE", agree),
		"output":     script.Usage(3, "output STEP blob|whole FILE", delivered),
		"everything": script.Usage(1, "everything FILE", everything),
	})
	return all
}

// network interrupts the connection to the server, or restores it.
func network(ts *testscript.TestScript, args []string) {
	p := own(ts).proxy
	switch args[0] {
	case "cut":
		p.Set(pgwire.Fault{Refuse: true})
		p.CutAll(true)
	case "silent":
		// It accepts connections and answers nothing.
		p.Set(pgwire.Hole())
	case "restore":
		p.Set(pgwire.Fault{})
	default:
		ts.Fatalf("net %s", args[0])
	}
}

// query asks the database itself, past the network and past acode.
func query(ts *testscript.TestScript, args []string) {
	ts.Check(ts.Exec("printf", "%s\n", pgtest.Psql(own(ts).t, own(ts).direct, args[0])))
}

func untilQuery(ts *testscript.TestScript, args []string) {
	s := own(ts)
	script.Until(ts, args[1], func() bool { return pgtest.Psql(s.t, s.direct, args[1]) == args[0] })
}

// ask sends a request to the syncer of a script.
func ask(ts *testscript.TestScript, path string) (status int, body string, err error) {
	socket := strings.TrimPrefix(ts.Getenv("ACODE_SYNC_LISTEN"), "unix:")
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	answer, err := client.Get("http://syncer" + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), err
}

// get prints an answer, and fails without one.
func get(ts *testscript.TestScript, args []string) {
	status, body, err := ask(ts, args[0])
	ts.Check(err)
	if status != http.StatusOK {
		ts.Fatalf("%s: status %d: %s", args[0], status, body)
	}
	ts.Check(os.WriteFile(ts.MkAbs("answer"), []byte(body), 0o600))
	ts.Check(ts.Exec("cat", "answer"))
	ts.Check(os.Remove(ts.MkAbs("answer")))
}

func untilGet(ts *testscript.TestScript, args []string) {
	script.Until(ts, args[1], func() bool {
		_, body, err := ask(ts, args[0])
		return err == nil && strings.Contains(body, args[1])
	})
}

// dropped drops parked events by their ids until none is left.
func dropped(ts *testscript.TestScript, _ []string) {
	for range 20 {
		var list struct {
			Parked []struct {
				Short string `json:"short_id"`
				Seq   uint64
			}
		}
		ts.Check(ts.Exec("acode", "sync", "parked", "list", "--json"))
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
		if len(list.Parked) == 0 {
			return
		}
		p := list.Parked[0]
		// The next event may be parked now.
		_ = ts.Exec("acode", "sync", "parked", "drop", p.Short, fmt.Sprintf("--confirm=%s/%d", p.Short, p.Seq))
	}
	ts.Fatalf("events are still parked")
}

// agree requires that status and metrics both report the same state of delivery.
func agree(ts *testscript.TestScript, args []string) {
	var status struct{ Sync struct{ State string } }
	ts.Check(ts.Exec("acode", "sync", "status", "--json"))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &status))
	ts.Check(ts.Exec("sh", "-c", "acode metrics | grep '^acode_sync_state.* 1$'"))
	metric := strings.TrimSpace(ts.ReadFile("stdout"))
	if status.Sync.State != args[0] || metric != fmt.Sprintf("acode_sync_state{state=%q} 1", args[0]) {
		ts.Fatalf("status says %s, metrics say %s, want %s", status.Sync.State, metric, args[0])
	}
}

// ratio compares the duration of a command with and without a configured server. It takes
// the shortest of several runs in turn, because a busy machine delays single runs.
func ratio(ts *testscript.TestScript, args []string) {
	limit, err := strconv.ParseFloat(args[0], 64)
	ts.Check(err)
	server := ts.Getenv("ACODE_POSTGRES_URL")
	defer ts.Setenv("ACODE_POSTGRES_URL", server)
	shortest := map[string]time.Duration{}
	for range 5 {
		for _, address := range []string{"", server} {
			ts.Setenv("ACODE_POSTGRES_URL", address)
			begin := time.Now()
			ts.Check(ts.Exec(args[1], args[2:]...))
			if took := time.Since(begin); shortest[address] == 0 || took < shortest[address] {
				shortest[address] = took
			}
		}
	}
	got := shortest[server].Seconds() / shortest[""].Seconds()
	ts.Logf("with a server %v, without one %v: %.2f times as long", shortest[server], shortest[""], got)
	if got > limit {
		ts.Fatalf("with a server %v, without one %v: %.2f times as long, want at most %v", shortest[server], shortest[""], got, limit)
	}
}

// idle waits until no process delivers.
func idle(ts *testscript.TestScript, _ []string) {
	script.Until(ts, "wait until no process delivers", func() bool {
		ts.Check(ts.Exec("acode", "sync", "status"))
		return strings.Contains(ts.ReadFile("stdout"), "Delivered by: no process")
	})
}

// role makes acode connect as another user, whose password must never be shown, or as
// before.
func role(ts *testscript.TestScript, args []string) {
	name := url.User("postgres")
	if len(args) > 0 {
		name = url.UserPassword(args[0], own(ts).secret)
	}
	change(ts, func(u *url.URL) { u.User = name })
}

// password takes the last line of the last output as the password of later roles.
func password(ts *testscript.TestScript, _ []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	own(ts).secret = lines[len(lines)-1]
}

// database points the address to another, empty database, which it calls $DATABASE.
func database(ts *testscript.TestScript, _ []string) {
	s := own(ts)
	s.direct = pgtest.Database(s.t)
	fresh, err := url.Parse(s.direct)
	ts.Check(err)
	ts.Setenv("DATABASE", strings.TrimPrefix(fresh.Path, "/"))
	change(ts, func(u *url.URL) { u.Path = fresh.Path })
}

func change(ts *testscript.TestScript, f func(u *url.URL)) {
	u, err := url.Parse(ts.Getenv("ACODE_POSTGRES_URL"))
	ts.Check(err)
	f(u)
	ts.Setenv("ACODE_POSTGRES_URL", u.String())
}

// delivered writes to a file the output of a step of the newest session as the server has
// it: head and tail, or all of it. It prefers standard error.
func delivered(ts *testscript.TestScript, args []string) {
	found := content(ts, fmt.Sprintf(`WHERE encode(b.hash, 'hex') = (SELECT coalesce(j #>> '{command,stderr,%[1]s,hash}', j #>> '{command,stdout,%[1]s,hash}')
FROM (SELECT convert_from(payload, 'UTF8')::jsonb AS j, session_id, seq FROM acode.events WHERE type = 'StepCompleted') e
WHERE (j ->> 'task') || '/' || (j ->> 'step') = '%[2]s' ORDER BY session_id DESC LIMIT 1)`, args[1], args[0]))
	if len(found) != 1 {
		ts.Fatalf("the server has %d blobs of the %s of %s", len(found), args[1], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), found[0], 0o600))
}

// everything writes all text of events and all content of the server to a file.
func everything(ts *testscript.TestScript, args []string) {
	all := content(ts, "")
	all = append(all, []byte(pgtest.Psql(own(ts).t, own(ts).direct, "SELECT convert_from(payload, 'UTF8') FROM acode.events")))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Join(all, []byte("\n")), 0o600))
}

// content returns the content of blobs of the server.
func content(ts *testscript.TestScript, where string) (all [][]byte) {
	s := own(ts)
	unpack, err := zstd.NewReader(nil)
	ts.Check(err)
	defer unpack.Close()
	for _, line := range strings.Fields(pgtest.Psql(s.t, s.direct, `SELECT encode(string_agg(c.data, ''::bytea ORDER BY c.n), 'hex')
FROM acode.blobs b JOIN acode.blob_chunks c USING (owner, hash) `+where+` GROUP BY b.owner, b.hash`)) {
		packed, err := hex.DecodeString(line)
		ts.Check(err)
		plain, err := unpack.DecodeAll(packed, nil)
		ts.Check(err)
		all = append(all, plain)
	}
	return all
}

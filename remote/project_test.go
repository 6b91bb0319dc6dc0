package remote_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/acode-dev/acode/migrations"
	"github.com/acode-dev/acode/remote"
	"github.com/acode-dev/acode/session"
)

// projectAll runs Project until no events are left, and counts the calls.
func projectAll(t *testing.T, r *remote.Server, limit int) int {
	t.Helper()
	for n := 1; n < 1000; n++ {
		more, err := r.Project(t.Context(), limit)
		if err != nil {
			t.Fatalf("Project: %v", err)
		}
		if !more {
			return n
		}
	}
	t.Fatal("Project: never ends")
	return 0
}

// say appends an event whose payload is data.
func (c *chain) say(typ session.EventType, data any) *chain {
	payload, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	epoch := c.epoch()
	if typ == session.ExecutionAcquired {
		epoch++
	}
	return c.add(typ, epoch, payload)
}

// story is a session with one of each event.
func story() *chain {
	c := &chain{id: newID()}
	step := func(name string) session.StepID { return session.StepID{Task: "build", Step: name} }
	key := func(name string, attempt int) string {
		return session.Key{Session: c.id, Step: step(name), Operation: session.OpMain, Attempt: attempt}.String()
	}
	c.say(session.SessionCreated, session.SessionCreatedData{V: 1, Short: "abc123", Task: "Größe 漢字", Workspace: "/w", Tasks: 1, Steps: 4, OnFailure: "pause", Program: "1.0", ForkedFrom: &session.ForkPoint{Session: "01890a5d-ac96-774b-bcce-b302099a8057", Seq: 7}})
	c.say(session.StateChanged, session.StateChangedData{From: session.Created, To: session.Planning})
	c.say(session.ExecutionAcquired, session.ExecutionAcquiredData{Device: device, Host: "laptop", PID: 42, Workspace: "/moved"})
	c.say(session.StateChanged, session.StateChangedData{From: session.Planning, To: session.Executing})
	c.say(session.StepStarted, session.StepStartedData{StepID: step("test"), Kind: "run", Key: key("test", 1), Attempt: 1})
	c.say(session.StepFailedEvent, session.StepFailedData{StepID: step("test"), Key: key("test", 1), Attempt: 1, Code: session.ErrCommand, Message: "exit 2", Command: &session.CommandResult{Exit: 2, DurationUS: 7, Stdout: session.Output{Bytes: 11}}})
	c.say(session.StepStarted, session.StepStartedData{StepID: step("test"), Kind: "run", Key: key("test", 2), Attempt: 2, By: "person"})
	c.say(session.StepCompleted, session.StepCompletedData{StepID: step("test"), Key: key("test", 2), Attempt: 2, EndedUS: c.events[len(c.events)-1].TimeUS, Command: &session.CommandResult{DurationUS: 9, Stdout: session.Output{Bytes: 3}, Stderr: session.Output{Bytes: 4}}})
	c.say(session.ApprovalRequested, session.ApprovalRequestedData{StepID: step("gate"), Question: "go on?", Digest: "d1"})
	c.say(session.ApprovalDenied, session.ApprovalDeniedData{StepID: step("gate"), Digest: "d1", By: "anna", Reason: "no"})
	c.say(session.ApprovalRequested, session.ApprovalRequestedData{StepID: step("gate"), Question: "now?", Digest: "d1"})
	c.say(session.ApprovalGranted, session.ApprovalGrantedData{StepID: step("gate"), Digest: "d1", By: "bert", For: 2})
	c.say(session.StepStarted, session.StepStartedData{StepID: step("lost"), Kind: "run", Key: key("lost", 1), Attempt: 1})
	c.say(session.StepUnknown, session.StepUnknownData{StepID: step("lost"), Key: key("lost", 1), Attempt: 1, Why: "killed"})
	c.say(session.CheckpointCreated, session.CheckpointCreatedData{Why: "risk"})
	c.say(session.ChangesAccepted, session.ChangesAcceptedData{By: "person"})
	c.say(session.InputsChanged, session.InputsChangedData{Names: []string{"PATH"}})
	c.call("n1", session.OperationCompleted)
	c.call("n2", session.OperationFailed)
	c.call("n3", session.OperationFailed, session.OperationCompleted)
	c.call("n4", session.OperationUnknown)
	c.say(session.OperationsSettled, session.OperationsSettledData{StepID: step("test"), Ops: []string{"n2", "n3"}})
	c.say(session.PowersGranted, session.PowersGrantedData{Sandbox: session.Unconfined, By: "flag"})
	held := session.StepID{Task: "build", Step: "test", Op: "n4"}
	c.say(session.ChangesHeld, session.ChangesHeldData{StepID: held, Held: []session.HeldChange{{Change: session.FileCreated}}})
	c.say(session.HeldDecided, session.HeldDecidedData{StepID: step("test"), Seqs: []uint64{uint64(len(c.events))}, Answer: "dropped", By: "anna"})
	c.model()
	return c.say(session.StateChanged, session.StateChangedData{From: session.Executing, To: session.Paused, Reason: session.ReasonUncertain, Detail: "look"})
}

// model appends a message and a request to a model, whose second attempt is answered.
func (c *chain) model() {
	step := session.StepID{Task: "build", Step: "test"}
	ask := func(attempt int) (session.StepID, string) {
		id := session.TurnID(step, 1)
		key := session.KeyOf(c.id, id, attempt).String()
		c.say(session.ModelAsked, session.ModelAskedData{StepID: id, Key: key, Attempt: attempt, Model: session.ModelSetup{Name: "small", Provider: "script"}})
		return id, key
	}
	c.say(session.MessageAdded, session.MessageAddedData{StepID: step, Kind: session.MessagePrompt, Text: "fix it"})
	id, key := ask(1)
	c.say(session.ModelFailed, session.ModelFailedData{StepID: id, Key: key, Attempt: 1, Code: session.ErrModel, Message: "cut"})
	id, key = ask(2)
	c.say(session.ModelAnswered, session.ModelAnsweredData{StepID: id, Key: key, Attempt: 2, Calls: 1})
	c.say(session.ContextReduced, session.ContextReducedData{StepID: step, Replies: 1, Summary: "facts"})
	c.say(session.PlanAdopted, session.PlanAdoptedData{StepID: step, Plan: session.BlobRef{Hash: "p"}, Tasks: 2, Steps: 4})
}

// call appends an operation of the step test. ends has the end of each attempt.
func (c *chain) call(op string, ends ...session.EventType) {
	id := session.StepID{Task: "build", Step: "test", Op: op}
	for i, end := range ends {
		attempt := i + 1
		key := session.Key{Session: c.id, Step: id, Operation: op, Attempt: attempt}.String()
		c.say(session.OperationStarted, session.OperationStartedData{StepID: id, Kind: "run", Key: key, Attempt: attempt, Call: &session.Call{Tool: "run_command", Digest: "d", Label: "make " + op}})
		switch end {
		case session.OperationCompleted:
			c.say(end, session.OperationCompletedData{StepID: id, Key: key, Attempt: attempt, Command: &session.CommandResult{DurationUS: 4}})
		case session.OperationFailed:
			c.say(end, session.OperationFailedData{StepID: id, Key: key, Attempt: attempt, Code: session.ErrCommand, Message: "exit 3", Command: &session.CommandResult{Exit: 3}})
		default:
			c.say(end, session.OperationUnknownData{StepID: id, Key: key, Attempt: attempt, Why: "gone"})
		}
	}
}

// The views agree with the events; projecting again from the start changes nothing.
func TestProject(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c := story()
	if _, err := r.Deliver(t.Context(), c.from(1, len(c.events))); err != nil {
		t.Fatal(err)
	}
	if n := projectAll(t, r, 3); n != 13 {
		t.Errorf("Project: %d calls of 3 events for 39, want 13", n)
	}
	views := map[string]string{
		`SELECT short_id, task, workspace, state, reason, detail, host, pid, tasks, steps, steps_completed, epoch, last_seq, projected_seq, device = '` + device + `' FROM acode_views.sessions`: "abc123|Größe 漢字|/moved|paused|uncertain|look|laptop|42|2|4|1|1|39|39|true",
		`SELECT task, status, steps_begun, steps_completed FROM acode_views.tasks`:                                                                                                               "build|uncertain|2|1",
		`SELECT step, kind, status, attempt, code, message, ended_at - started_at FROM acode_views.steps ORDER BY step`:                                                                          "lost|run|uncertain|1||killed|00:00:00.000001\ntest|run|completed|2|||00:00:00",
		`SELECT step, operation, attempt, status, exit, duration_us, stdout_bytes, stderr_bytes, by, code FROM acode_views.tool_calls WHERE operation = 'main' ORDER BY step, attempt`:           "lost|main|1|uncertain||||||\ntest|main|1|failed|2|7|11|0||" + string(session.ErrCommand) + "\ntest|main|2|completed|0|9|3|4|person|",
		`SELECT seq, task, step, op, why FROM acode_views.checkpoints ORDER BY seq`:                                                                                                              "6|build|test||\n8|build|test||\n15||||risk\n19|build|test|n1|\n21|build|test|n2|\n23|build|test|n3|\n25|build|test|n3|\n34|build|test|m1|\n36|build|test|m1|",
		`SELECT question, answer, by, reason, answer_seq FROM acode_views.approvals ORDER BY seq`:                                                                                                "go on?|denied|anna|no|10\nnow?|granted|bert||12",
		`SELECT device = '` + device + `', host, pid, sessions, events FROM acode_views.machines`:                                                                                                "true|laptop|42|1|39",
		`SELECT count(*), min(happened_at) FROM acode_views.events`:                                                                                                                              "39|2027-01-15T08:00:00.000001+00:00",
		`SELECT task, step, op, tool, label, kind, status, attempt, code, message, settled, start_seq, last_seq, ended_at - started_at FROM acode_views.operations ORDER BY op`:                  "build|test|m1|small||model|completed|2|||false|35|36|00:00:00.000001\nbuild|test|n1|run_command|make n1|run|completed|1|||false|18|19|00:00:00.000001\nbuild|test|n2|run_command|make n2|run|failed|1|" + string(session.ErrCommand) + "|exit 3|true|20|21|00:00:00.000001\nbuild|test|n3|run_command|make n3|run|completed|2|||true|24|25|00:00:00.000001\nbuild|test|n4|run_command|make n4|run|uncertain|1||gone|false|26|27|00:00:00.000001",
		`SELECT operation, attempt, key LIKE '%/' || operation || ':' || attempt, status, exit, duration_us FROM acode_views.tool_calls WHERE operation <> 'main' ORDER BY operation, attempt`:   "m1|1|true|failed||\nm1|2|true|completed||\nn1|1|true|completed|0|4\nn2|1|true|failed|3|0\nn3|1|true|failed|3|0\nn3|2|true|completed|0|4\nn4|1|true|uncertain||",
		`SELECT forked_from, forked_seq FROM acode_views.sessions`:                                                                                                                               "01890a5d-ac96-774b-bcce-b302099a8057|7",
		`SELECT count(*) FROM acode_views.flags`: "0",
	}
	check := func() {
		t.Helper()
		for sql, want := range views {
			if diff := cmp.Diff(lines(want), lines(s.rowsOf(sql))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", sql, diff)
			}
		}
	}
	check()
	s.exec(`UPDATE acode.heads SET projected_seq = 0`)
	projectAll(t, r, 100)
	check()
	other := s.open(s.role("acode_writer"))
	s.exec(`UPDATE acode.heads SET projected_seq = 0`)
	if n := projectAll(t, other, 100); n != 1 || s.value(`SELECT projected_seq FROM acode.heads`) != "0" {
		t.Errorf("Project of a role without sessions touched another's")
	}
}

// tables are the views that the projection fills, and their order.
var tables = map[string]string{"sessions": "session_id", "steps": "task, step", "tasks": "task", "tool_calls": "task, step, operation, attempt",
	"operations": "task, step, op", "checkpoints": "seq", "approvals": "seq", "machines": "device", "flags": "seq"}

// shown returns what the views show, without the times of the server.
func (s *site) shown() string {
	s.t.Helper()
	var out strings.Builder
	for _, view := range slices.Sorted(maps.Keys(tables)) {
		fmt.Fprintf(&out, "%s\n%s\n", view, s.value(fmt.Sprintf(`SELECT string_agg((to_jsonb(v) - '{owner,received_at,quiet}'::text[])::text, E'\n' ORDER BY %s) FROM acode_views.%s v`, tables[view], view)))
	}
	return out.String()
}

// forget returns the projection functions of a program that does not know an event type.
func forget(t *testing.T, typ session.EventType) string {
	t.Helper()
	now := migrations.PostgresProjection()
	older := strings.ReplaceAll(now, fmt.Sprintf("'%s'", typ), "'NoSuchType'")
	if older == now {
		t.Fatalf("the projection functions do not name %s", typ)
	}
	return older
}

// S7: a server keeps events of a type that it does not know. With functions that know the
// type it shows everything as if it had always known it.
func TestProjectUnknownType(t *testing.T) {
	s := newSite(t)
	address := s.role("acode_writer")
	r := s.open(address)
	c, plain := story(), newChain(9)
	for _, d := range []session.Delivery{c.from(1, len(c.events)), plain.from(1, 9)} {
		if _, err := r.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	projectAll(t, r, 100)
	want := s.shown()
	if got := s.value(`SELECT count(unknown_seq) FROM acode.heads`); got != "0" {
		t.Fatalf("%s sessions have an event that these functions do not know", got)
	}
	for _, typ := range session.EventTypes {
		first := slices.IndexFunc(c.events, func(e session.Event) bool { return e.Type == typ }) + 1
		if first == 0 {
			t.Errorf("the story has no %s", typ)
			continue
		}
		s.exec(`TRUNCATE acode.p_sessions, acode.p_steps, acode.p_tool_calls, acode.p_checkpoints, acode.p_approvals, acode.p_machines, acode.p_flags;
			UPDATE acode.heads SET projected_seq = 0`)
		if err := remote.Install(t.Context(), options(s.url), forget(t, typ)); err != nil {
			t.Fatal(err)
		}
		if got := s.value(fmt.Sprintf(`SELECT unknown_seq FROM acode.heads WHERE session_id = '%s'`, c.id)); got != fmt.Sprint(first) {
			t.Errorf("%s: the first event of an unknown type is %s, want %d", typ, got, first)
		}
		if err := remote.Install(t.Context(), options(s.url), migrations.PostgresProjection()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lines(want), lines(s.shown())); diff != "" {
			t.Errorf("after %s was unknown (-want +got):\n%s", typ, diff)
		}
	}
}

// older installs the projection functions of a program that does not know an event type,
// and delivers a session of three events. The second one has that type.
func (s *site) older(r *remote.Server, typ session.EventType, data any) *chain {
	s.t.Helper()
	if err := remote.Install(s.t.Context(), options(s.url), forget(s.t, typ)); err != nil {
		s.t.Fatal(err)
	}
	c := newChain(1).say(typ, data).say(session.CheckpointCreated, session.CheckpointCreatedData{Why: "bad"})
	if _, err := r.Deliver(s.t.Context(), c.from(1, 3)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// A migration projects no session again that has only events of known types. It leaves no
// flag of an event that failed with older functions.
func TestProjectAgain(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c := s.older(r, session.StateChanged, session.StateChangedData{To: session.Planning})
	plain := newChain(4)
	if _, err := r.Deliver(t.Context(), plain.from(1, 4)); err != nil {
		t.Fatal(err)
	}
	s.exec(`ALTER TABLE acode.p_checkpoints ADD CONSTRAINT planted CHECK (why <> 'bad')`)
	projectAll(t, r, 100)
	if got := s.value(`SELECT string_agg(seq || ' ' || flag, ', ') FROM acode_views.flags`); got != "3 failed 23514" {
		t.Fatalf("flags: got %q", got)
	}
	s.exec(`ALTER TABLE acode.p_checkpoints DROP CONSTRAINT planted`)
	written := func(c *chain) string {
		return s.value(fmt.Sprintf(`SELECT h.xmin || ' ' || p.xmin FROM acode.heads h JOIN acode.p_sessions p USING (session_id) WHERE session_id = '%s'`, c.id))
	}
	before, plainBefore := written(c), written(plain)
	if _, err := remote.Migrate(t.Context(), options(s.url), nil); err != nil {
		t.Fatal(err)
	}
	if written(c) == before || written(plain) != plainBefore {
		t.Errorf("Migrate projected %s, then %s; and without an unknown type %s, then %s", before, written(c), plainBefore, written(plain))
	}
	if got := s.value(fmt.Sprintf(`SELECT state || ' ' || (SELECT count(*) FROM acode_views.flags) || ' ' || (SELECT count(*) FROM acode_views.checkpoints WHERE why = 'bad')
		FROM acode_views.sessions WHERE session_id = '%s'`, c.id)); got != "planning 0 1" {
		t.Errorf("state, flags and checkpoints: got %s, want planning 0 1", got)
	}
}

// A migration waits for a call that projects with older functions. Otherwise that call
// would note an unknown type after the migration looked for one.
func TestMigrateBesideProject(t *testing.T) {
	s := newSite(t)
	address := s.role("acode_writer")
	s.older(s.open(address), session.StateChanged, session.StateChangedData{To: session.Planning})
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range []string{`BEGIN`, `SELECT acode.project(100)`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := remote.Migrate(t.Context(), options(s.url), nil)
		done <- err
	}()
	s.until(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, "1")
	if more, err := s.open(address).Project(t.Context(), 100); more || err != nil {
		t.Errorf("Project beside a migration: got %v, %v, want nothing done", more, err)
	}
	if _, err := conn.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := s.value(`SELECT state || ' ' || projected_seq || ' ' || (unknown_seq IS NULL) FROM acode_views.sessions`); got != "planning 3 true" {
		t.Errorf("after the migration: got %s, want planning 3 true", got)
	}
}

// rowsOf returns rows of columns separated by bars.
func (s *site) rowsOf(sql string) string {
	s.t.Helper()
	return s.value(`SET timezone = 'UTC'; SELECT coalesce(string_agg(array_to_string(ARRAY(SELECT value FROM json_each_text(j)), '|', ''), E'\n'), '') FROM (SELECT row_to_json(x) AS j FROM (` + sql + `) x) y`)
}

func lines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

// S5: content that PostgreSQL cannot hold is flagged, and the rest can be read.
func TestProjectPoison(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	c := newChain(1)
	for _, p := range poison() {
		for _, typ := range session.EventTypes[3:] {
			c.add(typ, 0, p)
		}
	}
	plain := len(c.events)
	key := func(n int) string { return fmt.Sprintf("v1:%s:t/s%d/main:1", c.id, n) }
	c.add(session.StepCompleted, 0, fmt.Appendf(nil, `{"task":"t","step":"s1","key":"%s","attempt":1,"message":"a\u0000b\ud800c\\u0000"}`, key(1)))
	c.add(session.StepCompleted, 0, fmt.Appendf(nil, `{"task":"t","step":"s2","key":"%s","attempt":1e3,"command":{"exit":99999999999999999999,"duration_us":"x"}}`, key(2)))
	c.add(session.StepCompleted, 0, fmt.Appendf(nil, `{"task":"%s","step":"s3","key":"v1:a:%[1]s","attempt":1}`, strings.Repeat("ä漢", 800)))
	c.add(session.StepCompleted, 0, []byte(`{"payload_blob":{"hash":"00","bytes":20000}}`))
	c.add(session.StepCompleted, 0, []byte(`{"withheld":"parked"}`))
	c.add(session.StepCompleted, 0, []byte(`{"task":{"a":1},"step":["x"],"key":7,"attempt":true,"command":"none"}`))
	c.add(session.StateChanged, 0, []byte(`{"to":"paused"}`))
	if _, err := r.Deliver(t.Context(), c.from(1, len(c.events))); err != nil {
		t.Fatal(err)
	}
	next := newChain(5)
	if _, err := r.Deliver(t.Context(), next.from(1, 5)); err != nil {
		t.Fatal(err)
	}
	projectAll(t, r, 50)
	if got := s.value(`SELECT bool_and(projected_seq = last_seq) FROM acode.heads`); got != "t" {
		t.Errorf("projection stopped")
	}
	at := func(n int) string {
		return s.value(fmt.Sprintf(`SELECT coalesce(min(flag), '') FROM acode.p_flags WHERE session_id = '%s' AND seq = %d`, c.id, plain+n))
	}
	for n, want := range []string{1: "replaced", 2: "", 3: "", 4: "in_blob", 5: "withheld", 6: "", 7: ""} {
		if got := at(n); n > 0 && got != want {
			t.Errorf("flag of the event %d after the poison: got %q, want %q", n, got, want)
		}
	}
	if got := s.value(`SELECT encode(convert_to(message, 'UTF8'), 'hex') FROM acode_views.steps WHERE step = 's1'`); got != fmt.Sprintf("%x", "a\ufffdb\ufffdc\\u0000") {
		t.Errorf("message: got %s, want the two characters replaced and the text of an escape kept", got)
	}
	if got := s.value(`SELECT status || attempt FROM acode_views.tool_calls WHERE step = 's2' AND exit IS NULL AND duration_us IS NULL`); got != "completed1000" {
		t.Errorf("step with numbers too large: got %s", got)
	}
	if got := s.value(fmt.Sprintf(`SELECT count(DISTINCT flag) > 3 AND count(*) > 60 FROM acode.p_flags WHERE session_id = '%s'`, c.id)); got != "t" {
		t.Errorf("flags: %s", s.value(`SELECT string_agg(DISTINCT flag, ', ') || count(*) FROM acode.p_flags`))
	}
	if got := s.value(fmt.Sprintf(`SELECT state FROM acode_views.sessions WHERE session_id = '%s'`, c.id)); got != "paused" {
		t.Errorf("state after the poison: got %q, want paused", got)
	}
}

// An event that makes a piece fail is flagged, and the others of the piece are projected.
func TestProjectGoesAround(t *testing.T) {
	s := newSite(t)
	r := s.open(s.role("acode_writer"))
	s.exec(`ALTER TABLE acode.p_checkpoints ADD CHECK (why <> 'bad')`)
	c := newChain(2)
	for _, why := range []string{"good", "bad", "better"} {
		c.say(session.CheckpointCreated, session.CheckpointCreatedData{Why: why})
	}
	if _, err := r.Deliver(t.Context(), c.from(1, 5)); err != nil {
		t.Fatal(err)
	}
	projectAll(t, r, 100)
	if got := s.value(`SELECT string_agg(why, ' ' ORDER BY seq) FROM acode.p_checkpoints`); got != "good better" {
		t.Errorf("checkpoints: got %q, want the good ones", got)
	}
	if got := s.value(`SELECT string_agg(seq || ' ' || flag, ', ') FROM acode_views.flags`); got != "4 failed 23514" {
		t.Errorf("flags: got %q", got)
	}
}

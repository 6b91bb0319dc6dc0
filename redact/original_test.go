package redact_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/acode-dev/acode/redact"
)

// kind is a kind of secret in a line of a file. None was ever valid.
type kind struct{ name, line string }

// kinds returns lines that each have one secret. n makes their last characters differ.
func kinds(n int) []kind {
	end := fmt.Sprintf("%04d", n)
	fill := func(size int) string { return strings.Repeat("4fA9cE2b", size/8+1)[:size-4] + end }
	hexa := func(size int) string { return strings.Repeat("4fa9ce2b", size/8+1)[:size-4] + end }
	jwt := "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "."
	pem := func(name string) string {
		return "-----BEGIN " + name + "-----\n" + strings.Repeat(fill(64)+"\n", 3) + "-----END " + name + "-----"
	}
	return []kind{
		{"github", "t: ghp_" + fill(36)}, {"github_oauth", "gho_" + fill(36)}, {"github_server", "x ghs_" + fill(36) + " y"},
		{"github_fine", "github_pat_" + fill(22) + "_" + fill(36)}, {"gitlab", "glpat-" + fill(20)}, {"gitlab_trigger", "glptt-" + hexa(40)},
		{"anthropic", "sk-ant-" + "api03-" + fill(40)}, {"openai", "sk-proj-" + fill(36)}, {"openai_old", "sk-" + fill(36)},
		{"slack", "xoxb-" + "123456789012-" + fill(36)}, {"slack_hook", "https://hooks.slack.com/services/T4FA9CE2B/B4FA9CE2B4/" + fill(24)},
		{"aws", "id AKIA" + strings.ToUpper(fill(16))}, {"aws_temporary", "id ASIA" + strings.ToUpper(fill(16))},
		{"google", "AIza" + fill(35)}, {"jwt", jwt + fill(43)}, {"npm", "//registry/:_authToken=npm_" + fill(36)},
		{"pypi", "pypi-" + "AgEIcHlwaS5vcmc" + fill(40)}, {"hugging_face", "hf_" + fill(34)}, {"sendgrid", "SG." + fill(22) + "." + fill(43)},
		{"stripe", "sk_live_" + fill(24)}, {"digitalocean", "dop_v1_" + hexa(64)}, {"shopify", "shpat_" + hexa(32)}, {"databricks", "dapi" + hexa(32)},
		{"pulumi", "pul-" + hexa(40)}, {"vault", "hvs." + fill(95)}, {"terraform", hexa(14) + ".atlasv1." + fill(67)}, {"telegram", "123456789:AA" + fill(33)},
		{"age", "AGE-SECRET-KEY-1" + strings.ToUpper(fill(58))}, {"bearer", "Authorization: Bearer " + fill(30)}, {"header", "Authorization: Token " + hexa(40)},
		{"basic", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("user:password"+end))},
		{"url", "postgres://u:hunter2" + end + "@h/db"}, {"url_short", "redis://:pw" + end + "@h"}, {"curl", "curl -u admin:hunter2" + end + "ab https://h"},
		{"context", "password=hunter2hunter" + end}, {"context_quoted", `api-key: "one two ` + end + `"`}, {"context_short", `password: 'x` + end + `'`},
		{"context_json", `"client_secret": "abcdefgh` + end + `",`}, {"context_escaped", `"doc": "{\"token\": \"abcdefgh` + end + `\"}"`},
		{"key_rsa", pem("RSA " + "PRIVATE KEY")}, {"key_openssh", pem("OPENSSH " + "PRIVATE KEY")}, {"key_in_json", `"k": "` + strings.ReplaceAll(pem("PRIVATE"+" KEY"), "\n", `\n`) + `"`},
		{"known", "say planted-by-value-" + end}, {"known_base64", "b " + base64.StdEncoding.EncodeToString([]byte("planted-by-value-"+end))},
		{"known_percent", "q planted%2Dby%2Dvalue%2D" + end}, {"known_lines", "two planted-line-one\nplanted-line-" + end},
	}
}

func knowing(n int) *redact.Redactor {
	return redact.New([]string{fmt.Sprintf("planted-by-value-%04d", n), fmt.Sprintf("planted-line-one\nplanted-line-%04d", n)})
}

// D6: an agent reads a file with masks, and sends masks back with each of the tools that
// write. Every byte of the secret is kept.
func TestEveryKindIsKept(t *testing.T) {
	r := knowing(7)
	all := kinds(7)
	if len(all) < 40 {
		t.Fatalf("kinds: got %d, want at least 40", len(all))
	}
	for _, k := range all {
		file := "# first line\nbefore\n" + k.line + "\nafter\n"
		seen := r.String(file)
		i := strings.Index(seen, "***")
		if i < 0 {
			t.Errorf("%s: String(%q): nothing is masked", k.name, file)
			continue
		}
		o := r.Original([]byte(file))
		// the line of the mask as it is seen
		line := seen[len("# first line\nbefore\n") : len(seen)-len("\nafter\n")]
		t.Run(k.name+"/write_file", func(t *testing.T) {
			changed := strings.Replace(seen, "first line", "another first line", 1)
			if got, want := restored(t, o, changed), strings.Replace(file, "first line", "another first line", 1); got != want {
				t.Errorf("Restore: got %q, want %q", got, want)
			}
		})
		t.Run(k.name+"/edit_file_old_string", func(t *testing.T) {
			old, err := o.RestoreOld(line + "\nafter")
			if err != nil || strings.Count(file, old) != 1 {
				t.Fatalf("RestoreOld: got %q, %v", old, err)
			}
			with := restored(t, o, line+"\nbehind")
			if got, want := strings.Replace(file, old, with, 1), strings.Replace(file, "after", "behind", 1); got != want {
				t.Errorf("edit: got %q, want %q", got, want)
			}
		})
		t.Run(k.name+"/edit_file_new_string", func(t *testing.T) {
			with := restored(t, o, "before "+line+" and after")
			if got, want := strings.Replace(file, "before", with, 1), strings.Replace(file, "before", "before "+k.line+" and after", 1); got != want {
				t.Errorf("edit: got %q, want %q", got, want)
			}
		})
	}
}

func restored(t testing.TB, o *redact.Original, text string) string {
	t.Helper()
	got, err := o.Restore(text)
	if err != nil {
		t.Fatalf("Restore(%q): %v", text, err)
	}
	return got
}

func TestRestore(t *testing.T) {
	const banner = "/**********************\n * *** ***\n"
	for _, tt := range []struct{ name, file, text, want string }{
		{"no_mask", "password=hunter2hunter2", "a\xff * ** b", "a\xff * ** b"},
		{"empty", "", "", ""},
		{"one_value_twice", "password=hunter2hunter2\npassword=hunter2hunter2", "password=***ter2", "password=hunter2hunter2"},
		{"text_after_a_mask", "password=hunter2hunter2", "x=***ter2ter2", "x=hunter2hunter2ter2"},
		{"literal", "see ***bold*** and ***", "***bold*** or ***, ***bold", "***bold*** or ***, ***bold"},
		{"other_host", "redis://:ab@h/0", "redis://:***@h2/1", "redis://:ab@h2/1"},
		{"short_mask_in_a_word", "exactly8-x", "***-x ***-x", "exactly8-x exactly8-x"},
		{"literal_and_secret", "***bold\ntoken=hunter2hunter2", "token=***ter2\n***bold", "token=hunter2hunter2\n***bold"},
		{"placeholder", "password: ***\n", "password: ***\nx", "password: ***\nx"},
		{"longer_row", banner, "/************\n***", "/************\n***"},
		{"row_beside_short_mask", "/********/\npassword: 'ab'", "/*********/ password: '***'", "/*********/ password: 'ab'"},
		{"side_by_side", "exactly8exactly8", "<******>", "<exactly8exactly8>"},
		{"asterisk_before", "*twelve-bytes", "+ ****ytes", "+ *twelve-bytes"},
		{"bold", "**twelve-bytes**", "*****ytes**!", "**twelve-bytes**!"},
		{"asterisks_at_the_end", "ends-in-stars****", "*******", "ends-in-stars****"},
		{"masked_two_times", "token=ghp_Abcd1234Efgh5678Ijkl9012Mnop:xyzxyzxyz", "token=***zxyz", "token=ghp_Abcd1234Efgh5678Ijkl9012Mnop:xyzxyzxyz"},
		{"invalid_utf8", "bad\xff\xfebytes-here\xff", "***here\xff", "bad\xff\xfebytes-here\xff"},
		{"mask_is_longer_than_what_follows", "a exactly8ytes b", "***ytes", "exactly8ytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := redact.New([]string{"exactly8", "twelve-bytes", "ends-in-stars****", "bad\xff\xfebytes-here"})
			if got := restored(t, r.Original([]byte(tt.file)), tt.text); got != tt.want {
				t.Errorf("Restore(%q) for %q: got %q, want %q", tt.text, tt.file, got, tt.want)
			}
		})
	}
}

// D6: nothing is guessed.
func TestMasksThatCannotBeRestored(t *testing.T) {
	r := redact.New([]string{"exactly8", "twelve-bytes", "another-bytes"})
	for _, tt := range []struct {
		name, file, text string
		want             redact.MaskError
	}{
		{"two_secrets_one_mask", "twelve-bytes another-bytes", "\n***ytes", redact.MaskError{Reason: redact.MaskAmbiguous, Mask: "***ytes", Line: 2}},
		{"two_short_secrets", "password: 'ab'\npassword: 'cd'", "password: '***'", redact.MaskError{Reason: redact.MaskAmbiguous, Mask: "***", Line: 1}},
		{"secret_and_literal", "twelve-bytes ***ytes", "***ytes", redact.MaskError{Reason: redact.MaskAmbiguous, Mask: "***ytes", Line: 1}},
		{"short_mask_and_longer_one", "exactly8ytes twelve-bytes", "***ytes", redact.MaskError{Reason: redact.MaskAmbiguous, Mask: "***ytes", Line: 1}},
		{"of_another_file", "nothing", "a\nb\ntoken=***ter2", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***ter2", Line: 3}},
		{"of_another_file_without_tail", "token=hunter2hunter2", "x: '***'", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***", Line: 1}},
		{"no_file", "", "***ter2", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***ter2", Line: 1}},
		{"other_tail", "token=hunter2hunter2", "token=***ter3", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***ter3", Line: 1}},
		{"more_asterisks", "token=hunter2hunter2", "token=****ter2", redact.MaskError{Reason: redact.MaskUnknown, Mask: "****ter", Line: 1}},
		{"of_another_file_beside_a_short_one", "password: 'ab'", "password: '***cdef'", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***cdef", Line: 1}},
		{"text_added_to_a_short_mask", "password: 'ab'", "password: '***c'", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***c", Line: 1}},
		{"other_literal", "***bold***", "***bald***", redact.MaskError{Reason: redact.MaskUnknown, Mask: "***bald", Line: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Original([]byte(tt.file)).Restore(tt.text)
			var e *redact.MaskError
			if !errors.As(err, &e) || *e != tt.want || got != "" {
				t.Errorf("Restore(%q) for %q: got %q, %v, want %v", tt.text, tt.file, got, err, &tt.want)
			}
		})
	}
}

// An edit changes no part of what its author does not see.
func TestOldTextInsideASecret(t *testing.T) {
	o := redact.New(nil).Original([]byte("user=ann\ntoken=hunter2hunter2\nter2 = 2\n"))
	for _, text := range []string{"ter2", "h", "=hunter2", "unter2hunter2", "ter2\nter2 ="} {
		_, err := o.RestoreOld(text)
		var e *redact.MaskError
		if !errors.As(err, &e) || e.Reason != redact.SecretTouched || e.Line != 2 || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("RestoreOld(%q): got %v, want an error for line 2", text, err)
		}
	}
	for text, want := range map[string]string{"": "", "ter2 =": "ter2 =", "token=***ter2\n": "token=hunter2hunter2\n", "***ter2": "hunter2hunter2", "ann\nto": "ann\nto", "absent": "absent"} {
		if got, err := o.RestoreOld(text); got != want || err != nil {
			t.Errorf("RestoreOld(%q): got %q, %v, want %q", text, got, err, want)
		}
	}
}

// A change of what is around a mask does not show the secret.
func TestHides(t *testing.T) {
	const file = "password=hunter2hunter2\ncolour: green-and-blue\ntoken: production\nin production\n"
	o := redact.New(nil).Original([]byte(file))
	for name, tt := range map[string]struct {
		result, sent string
		line         int
	}{
		"unchanged": {file, "", 0}, "empty": {"", "", 0},
		"other_name":       {strings.Replace(file, "password", "pw", 1), "pw=", 1},
		"other_place":      {file + "see hunter2hunter2\n", "see ***ter2", 5},
		"typed_by_author":  {file + "see hunter2hunter2\n", "see hunter2hunter2", 0},
		"other_secret":     {strings.Replace(file, "password=", "secret: ", 1), "secret: ***ter2", 0},
		"word_shown_there": {file + "production", "", 0},
	} {
		err := o.Hides([]byte(tt.result), tt.sent)
		var e *redact.MaskError
		if errors.As(err, &e); (err == nil) != (tt.line == 0) || err != nil && (*e != redact.MaskError{Reason: redact.SecretShown, Mask: "***ter2", Line: tt.line}) {
			t.Errorf("%s: Hides: got %v, want line %d", name, err, tt.line)
		}
	}
}

// A secret that is too long for one part of a text, and lines longer than a part.
func TestRestoreLongSecrets(t *testing.T) {
	for _, file := range []string{
		"a\npassword=" + strings.Repeat("x", 1<<20) + "Y b\nc", "a ghp_" + strings.Repeat("Ab3", 1<<18) + " b " + strings.Repeat("long ", 1<<17) + "token=hunter2hunter2",
	} {
		o, seen := redact.New(nil).Original([]byte(file)), redact.New(nil).String(file)
		if got := restored(t, o, seen); got != file || seen == file {
			t.Errorf("Restore(%q): got %d bytes, want the %d of the file", seen[:min(len(seen), 100)], len(got), len(file))
		}
	}
}

// D6, for any file with secrets: redact, change a line that has no mask, restore. The
// result is the file with that line changed, unless a mask stands for several values.
func TestRestoreChangesOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, len(kinds(0))), 0, 8).Draw(t, "kinds") {
			if n == 0 {
				lines = append(lines, rapid.StringMatching(`[a-z*=:'" ]{0,12}`).Draw(t, "line"))
				continue
			}
			lines = append(lines, kinds(i)[n-1].line)
		}
		at := rapid.IntRange(0, len(lines)).Draw(t, "at")
		lines = append(lines[:at:at], append([]string{"this line changes"}, lines[at:]...)...)
		file := strings.Join(lines, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"))
		changed := rapid.StringMatching(`[a-z ]{0,12}`).Draw(t, "changed")
		checkRestore(t, knowing(at), file, changed)
	})
}

// The same for texts in which rules, secrets and masks meet.
func TestRestoreAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, _, text := drawCase(t)
		_, _, more := drawCase(t)
		checkRestore(t, r, text+"\nthis line changes\n"+more, "another line")
	})
}

func checkRestore(t *rapid.T, r *redact.Redactor, file, changed string) {
	o, seen := r.Original([]byte(file)), r.String(file)
	if !strings.Contains(seen, "this line changes") {
		// the line is part of a secret
		return
	}
	got, err := o.Restore(strings.Replace(seen, "this line changes", changed, 1))
	var e *redact.MaskError
	if errors.As(err, &e) && e.Reason == redact.MaskAmbiguous {
		// such a mask occurs more than once, or a shorter one begins like it
		if strings.Count(seen, "***") < 2 {
			t.Fatalf("Restore for %q: got %v", file, err)
		}
		return
	}
	if want := strings.Replace(file, "this line changes", changed, 1); got != want || err != nil {
		t.Fatalf("Restore(%q): got %q, %v, want %q", seen, got, err, want)
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte("a exactly8\n***ytes twelve-bytes"), "***ytes\n***")
	f.Add([]byte("-----BEGIN PRIVATE"+" KEY-----\nMIIEabcdefghijklmnop\n"), "***")
	f.Add([]byte("password: '*ab'****\n"), "'***'****")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		r := redact.New([]string{"exactly8", "twelve-bytes", "***ends****"})
		o := r.Original(file)
		if got, err := o.Restore(string(r.Bytes(file))); err == nil && got != string(file) {
			t.Fatalf("Restore of the masked file %q: got %q", file, got)
		}
		if got, err := o.Restore(text); err == nil && !strings.Contains(text, "***") && got != text {
			t.Fatalf("Restore(%q): got %q", text, got)
		}
	})
}

// A file of many secrets costs no square of its length.
func TestManySecrets(t *testing.T) {
	var file strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&file, "token=AAAAAAAA-%08d\n", i*7)
	}
	text := file.String() + "last: 1\n"
	r := redact.New(nil)
	o := r.Original([]byte(text))
	if _, err := o.RestoreOld("last: 1"); err != nil {
		t.Error(err)
	}
	if err := o.Hides([]byte(strings.Replace(text, "last: 1", "last: 2", 1)), "last: 2"); err != nil {
		t.Error(err)
	}
	if got, err := o.Restore("last: ***"); err == nil {
		t.Errorf("Restore: got %q, want an error", got)
	}
}

package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/acode-dev/acode/redact"
)

const planted = "S3cr3t/Value+with&signs=42"

func TestExactValuesInEveryForm(t *testing.T) {
	r := redact.New([]string{planted, "päss\"wörd\\x\n1"})
	quoted, _ := json.Marshal("päss\"wörd\\x\n1")
	twice, _ := json.Marshal(string(quoted))
	forms := map[string]string{
		"raw":        planted,
		"query":      url.QueryEscape(planted),
		"path":       url.PathEscape(planted),
		"lower":      strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3D", "%3d").Replace(url.QueryEscape(planted)),
		"hex":        hex.EncodeToString([]byte(planted)),
		"HEX":        strings.ToUpper(hex.EncodeToString([]byte(planted))),
		"base64":     base64.StdEncoding.EncodeToString([]byte(planted)),
		"base64_1":   base64.StdEncoding.EncodeToString([]byte("u" + planted + "x")),
		"base64_2":   base64.StdEncoding.EncodeToString([]byte("uv" + planted + "xy")),
		"base64_url": base64.URLEncoding.EncodeToString([]byte(planted)),
		"json":       string(quoted),
		"json_twice": string(twice),
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			got := r.String("before " + form + " after")
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, "***") {
				t.Errorf("String: got %q", got)
			}
			if len(got) > len("before  after")+16 {
				t.Errorf("String: got %q, want nearly all of the form masked", got)
			}
		})
	}
}

// Forms in which programs other than Go write a secret: Python, PHP, JavaScript, shells
// and base64(1), and forms of bytes that are not UTF-8.
func TestFormsOfOtherPrograms(t *testing.T) {
	long := strings.Repeat("0123456789+-*/", 10)
	wrapped := base64.StdEncoding.EncodeToString([]byte(long + "\n"))
	for _, tt := range []struct{ name, secret, form string }{
		{"bytes_that_are_no_text", "abc\xff\xfedef-bin-\x80\x81ghi", strings.ToValidUTF8("abc\xff\xfedef-bin-\x80\x81ghi", "\ufffd")},
		{"python_quote", "Tk9-s3cr3t/with+url x", "Tk9-s3cr3t/with%2Burl%20x"},
		{"python_quote_all", "Tk9-s3cr3t/with+url x", "Tk9-s3cr3t%2Fwith%2Burl%20x"},
		{"javascript_component", "P@ssw0rd! 2024", "P%40ssw0rd!%202024"},
		{"javascript_uri", "P@ssw0rd! 2024", "P@ssw0rd!%202024"},
		{"python_json", "wört-\U0001f600-ende", `w\u00f6rt-\ud83d\ude00-ende`},
		{"php_json", "a/b/c-secret", `a\/b\/c-secret`},
		{"php_json_ascii", "ä/b/c-secret", `\u00e4\/b\/c-secret`},
		{"set_x_bash", "it's a secret", `it'\''s a secret`},
		{"set_x_dash", "it's a secret", `it'"'"'s a secret`},
		{"printf_q", "a b&c$d-secret!", `a\ b\&c\$d-secret\!`},
		{"base64_line", long, wrapped[:76]},
		{"base64_next_line", long, wrapped[76:152]},
		{"base64_last_line", long, wrapped[152:]},
		{"openssl_line", long, wrapped[64:128]},
	} {
		got := redact.New([]string{tt.secret}).String("<" + tt.form + ">")
		if !strings.HasPrefix(got, "<***") || len(got) > len("<***1234>") {
			t.Errorf("%s: String of %q: got %q", tt.name, tt.form, got)
		}
	}
}

func TestMask(t *testing.T) {
	r := redact.New([]string{"exactly8", "exactly8-and-longer", "twelve-bytes", "short", "schlüßelwörterü", "bad\xff\xfebytes-here", " padded-secret\n", "12345678-middle-87654321"})
	for _, tt := range []struct{ name, in, want string }{
		{"no_tail_below_12", "x exactly8 y", "x *** y"},
		{"tail_at_12", "twelve-bytes", "***ytes"},
		{"longest_first", "exactly8-and-longer", "***"},
		{"short_is_ignored", "a short one", "a short one"},
		{"side_by_side", "twelve-bytestwelve-bytes", "***ytes***ytes"},
		{"whole_characters", "schlüßelwörterü", "***erü"},
		{"invalid_utf8", "\xffbad\xff\xfebytes-here\xff", "\xff***here\xff"},
		{"invalid_utf8_as_json_shows_it", "bad\ufffd\ufffdbytes-here", "***here"},
		{"trimmed", "[padded-secret]", "[***cret]"},
		{"nothing", "nothing at all", "nothing at all"},
		{"same_ends", "12345678-MIDDLE-87654321", "12345678-MIDDLE-87654321"},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.String(tt.in); got != tt.want {
				t.Errorf("String(%q): got %q, want %q", tt.in, got, tt.want)
			}
			if got := r.Changes([]byte(tt.in)); got != (tt.in != tt.want) {
				t.Errorf("Changes(%q): got %v", tt.in, got)
			}
		})
	}
}

func TestPrivateKeyLines(t *testing.T) {
	line := strings.Repeat("Ab3+", 16)
	key := "-----BEGIN PRIVATE KEY-----\n" + line + "\n-----END PRIVATE KEY-----\n"
	r := redact.New([]string{key})
	if got, want := r.String("> "+line+" <"), "> ***Ab3+ <"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
	if got, want := r.String("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
}

// The parts are joined here so that no scanner of repositories takes them for real
// secrets.
func TestRules(t *testing.T) {
	alnum := "Abcd1234Efgh5678Ijkl9012Mnop3456Qrst"
	jwt := "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "." + alnum
	var r *redact.Redactor
	for _, tt := range []struct{ name, in, want string }{
		{"github", "t ghp_" + alnum + " u", "t ***Qrst u"},
		{"github_oauth", "gho_" + alnum, "***Qrst"},
		{"github_server", "ghs_" + alnum, "***Qrst"},
		{"github_fine", "github_pat_" + alnum[:22] + "_" + alnum, "***Qrst"},
		{"gitlab", "glpat-" + alnum[:20], "***Ijkl"},
		{"anthropic", "sk-ant-" + "api03-" + alnum + "-x_y", "***-x_y"},
		{"openai", "sk-proj-" + alnum, "***Qrst"},
		{"openai_old", "sk-" + alnum, "***Qrst"},
		{"slack", "xoxb-" + "123456789012-" + alnum, "***Qrst"},
		{"aws", "AKIA" + "IOSFODNN7EXAMPLE.", "***MPLE."},
		{"aws_temporary", "ASIA" + "IOSFODNN7EXAMPLE", "***MPLE"},
		{"google", "AIza" + alnum[:35], "***6Qrs"},
		{"jwt", "x " + jwt + " y", "x ***Qrst y"},
		{"jwt_unsigned", jwt[:len(jwt)-len(alnum)], "***In0."},
		{"npm", "npm_" + alnum, "***Qrst"},
		{"pypi", "pypi-" + "AgEIcHlwaS5vcmc" + alnum, "***Qrst"},
		{"hugging_face", "hf_" + alnum, "***Qrst"},
		{"sendgrid", "SG." + alnum[:22] + "." + alnum, "***Qrst"},
		{"stripe", "sk_live_" + alnum[:24] + " rk_live_" + alnum[:24], "***9012 ***9012"},
		{"bearer", "Authorization: Bearer " + alnum, "Authorization: Bearer ***Qrst"},
		{"bearer_lower", "authorization: bearer abc12345", "authorization: bearer ***"},
		{"bearer_blanks", "Bearer \t " + alnum, "Bearer \t ***Qrst"},
		{"bearer_letters", "Bearer abc-defghi", "Bearer ***"},
		{"bearer_capitals", "Bearer abcDefgHi", "Bearer ***"},
		{"bearer_in_header", `-H 'Authorization: Bearer secrets'`, `-H 'Authorization: Bearer ***'`},
		{"bearer_in_json", `"authorization":"bearer abc"`, `"authorization":"bearer ***"`},
		{"threat_4_aws", "x aws_" + "abcdefgh1234567890abcdef y", "x ***cdef y"},
		{"threat_4_github", "GitHub_" + "abcdefghijklmnopqrstuvwx", "***uvwx"},
		{"threat_4_stripe", "(stripe_" + "ABCDEFGHIJKLMNOPQRSTUVWX)", "(***UVWX)"},
		{"threat_4_quoted", `password: 'hunter2', API_KEY = "ab"`, `password: '***', API_KEY = "***"`},
		{"threat_4_doubled", `password: 'it''s me'`, `password: '***'`},
		{"basic", "Basic " + base64.StdEncoding.EncodeToString([]byte("user:password")), "Basic ***"},
		{"url", "postgres://u:hunter2@h/db", "postgres://u:***@h/db"},
		{"url_long", "https://u:hunter2hunter2@h:80", "https://u:***ter2@h:80"},
		{"url_no_user", "redis://:hunter2@h", "redis://:***@h"},
		{"url_at_in_password", "amqp://u:p@ss@h/", "amqp://u:***@h/"},
		{"after_escape", `{\"a\":\"x\nghp_` + alnum + `\"}`, `{\"a\":\"x\n***Qrst\"}`},
		{"after_percent", "a%3Dghp_" + alnum, "a%3D***Qrst"},
		{"after_colour", "\x1b[31;1mghp_" + alnum, "\x1b[31;1m***Qrst"},
		{"context", "password=hunter2hunter2", "password=***ter2"},
		{"context_name", "DB_PASSWORD = hunter2hunter2, next", "DB_PASSWORD = ***ter2, next"},
		{"context_suffix", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***DENG"},
		{"context_quoted", `api-key: "one two three"`, `api-key: "***hree"`},
		{"context_json", `"client_secret": "abcdefghi"`, `"client_secret": "***"`},
		{"context_backslash_last", `"token": "abcdefghi\\" b`, `"token": "***" b`},
		{"context_nested_json", `\"token\": \"abc\\\"defghijkl\"`, `\"token\": \"***ijkl\"`},
		{"context_escaped_line", `token: abcdefghi\nnext`, `token: ***\nnext`},
		{"context_ruby", `:passwd => 'hunter2hunter2'`, `:passwd => '***ter2'`},
		{"context_query", "?token=abcdefgh&page=2", "?token=***&page=2"},
		{"context_comma_inside", "password=abc,defghi", "password=***"},
		{"context_unclosed", "credential: \"abcdefghij\nk", "credential: \"***\nk"},
		{"key_block", "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefghijklmnop\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"},
		{"key_block_encrypted", "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END EC PRIVATE KEY-----", "***"},
		{"key_block_cut_off", "-----BEGIN PRIVATE KEY-----\nMIIEabcdefghijklmnop", "***"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.String(tt.in); got != tt.want {
				t.Errorf("String(%q): got %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// D3.
func TestLeftAlone(t *testing.T) {
	sum := "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	raw, _ := hex.DecodeString(sum)
	for _, text := range []string{
		"0193a5c2-7d1e-7b3a-9c4d-5e6f708192a3", sum, "sha256:" + sum, base64.StdEncoding.EncodeToString(raw),
		base64.RawURLEncoding.EncodeToString(raw), "7K2QX9", "v1:0193a5c2-7d1e-7b3a-9c4d-5e6f708192a3:build/compile/main:1",
		"token: 0193a5c2-7d1e-7b3a-9c4d-5e6f708192a3", "secret=" + sum + ".", "credential: sha256-" + base64.StdEncoding.EncodeToString(raw),
		"password: ${DB_PASSWORD}", "password=$DATABASE_PASSWORD", "token: ${{ secrets.GITHUB_TOKEN }}", "api_key: <your key here>",
		"token=$(cat token)", "password: ********", "password: {{ vault_password }}", "tokens_used: 12345678", "secret_name: production-db",
		"desk-Abcd1234Efgh5678Ijkl9012", "/sk-learn-pipeline-tutorial-of-2020", "npm_config_user_agent", "aws_region", "github_pullrequestid", "Bearer authentication", "bearer certificates.", `token: ""`, `password: '${PW}'`, "the bearer of this letter", "Basic authentication",
		"https://example.com:8080/a@b", "http://u@h", "ghp_short", "AKIA" + "IOSFODNN7EXAMPLEX", "-----BEGIN CERTIFICATE-----\nMIIEabcdefghijklmnop\n",
		"postgres://u:***@h", "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx", "SG.a.b", "SG.Abcd1234Efgh5678Ijkl.short", "xAKIA" + "IOSFODNN7EXAMPLE", "Basic Zm9vYmFyYmF6",
		"xeyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.x", "xSG.Abcd1234Efgh5678Ijkl.Abcd1234Efgh5678Ijkl", "token", "token :", "amghp_Abcd1234Efgh5678Ijkl9012",
	} {
		for name, r := range map[string]*redact.Redactor{"nil": nil, "exact": redact.New([]string{planted})} {
			if got := r.String(text); got != text {
				t.Errorf("String with %s redactor: got %q, want %q untouched", name, got, text)
			}
		}
	}
	if got := redact.New([]string{sum}).String(sum); got != "***0a08" {
		t.Errorf("String of a hash that is an exact secret: got %q", got)
	}
}

type payload struct {
	Message string
	Name    string `redact:"-"`
	Count   int
	Lines   []string
	Next    *payload
	Any     any
	Vars    map[string]string
}

func TestValue(t *testing.T) {
	r := redact.New([]string{"hunter2hunter2", "workspace"})
	deep := func(secret, short string) payload {
		return payload{Message: "x " + secret, Name: "hunter2hunter2", Count: 7, Lines: []string{"a", secret},
			Next: &payload{Message: secret, Any: []any{secret, 1}}, Any: payload{Message: secret}, Vars: map[string]string{"A": secret, "B": short}}
	}
	in := deep("hunter2hunter2", "b")
	if diff := cmp.Diff(deep("***ter2", "b"), r.Value(in)); diff != "" {
		t.Errorf("Value (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(deep("hunter2hunter2", "b"), in); diff != "" {
		t.Errorf("Value wrote to its argument (-want +got):\n%s", diff)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"dbPassword": {"correct horse", "***orse"}, "b": {"correct horse", "correct horse"}, "password": {"the longer workspace", "***"}, "tokens": {"short", "short"},
		"token": {"0193a5c2-7d1e-7b3a-9c4d-5e6f708192a3", "0193a5c2-7d1e-7b3a-9c4d-5e6f708192a3"}, "API_KEY": {"${OTHER_KEY}", "${OTHER_KEY}"},
	} {
		if diff := cmp.Diff(map[string]string{name: tt.want}, r.Value(map[string]string{name: tt.text})); diff != "" {
			t.Errorf("Value under %s (-want +got):\n%s", name, diff)
		}
	}
	list := map[string]any{"tokens": []any{"abcdefgh", "short"}, "secret": map[string]string{"a": "abcdefgh"}}
	if diff := cmp.Diff(map[string]any{"tokens": []any{"***", "short"}, "secret": map[string]string{"a": "abcdefgh"}}, r.Value(list)); diff != "" {
		t.Errorf("Value (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"X-***ter2": 1}, r.Value(map[string]int{"X-hunter2hunter2": 1})); diff != "" || r.Value(nil) != nil {
		t.Errorf("Value (-want +got):\n%s", diff)
	}
}

func TestAttr(t *testing.T) {
	r := redact.New([]string{`pa"ss\word-1`})
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr { return r.Attr(groups, dropTime(groups, a)) }}))
	secret := `pa"ss\word-1`
	log.With("w", secret).Info("said "+secret, "token", "abcdefghijkl", "error", errors.New(secret), "list", []string{secret}, slog.Group("g", "a", secret), "n", 1)
	want := `{"level":"INFO","msg":"said ***rd-1","w":"***rd-1","token":"***ijkl","error":"***rd-1","list":["***rd-1"],"g":{"a":"***rd-1"},"n":1}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("Attr (-want +got):\n%s", diff)
	}
}

func dropTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func TestFromEnvironment(t *testing.T) {
	got := redact.FromEnvironment([]string{
		"GITHUB_TOKEN=token-value-1", "ANTHROPIC_API_KEY=key-value-2", "PGPASSWORD=password-3", "MY_SECRETS=secret-4", "DB_PASS=pass-five",
		"MYSQL_PWD=pwd-value-6", "SMTP_CREDENTIALS=cred-7-value", "SENTRY_DSN=https://k@sentry", "HTTP_AUTH=auth-8-value", "API_KEY=short",
		"DATABASE_URL=postgres://u:url%2Dpass-9@h/d redis://:other-10@h", "CONN=host=h password='quoted pass 11' user=u", "ADO=Server=s;Pwd=ado-pass-12;X=y",
		"AZURE=AccountKey=abc/def+13==;End=1", "LIBPQ=host=h password = spaced-14", "QUERY=postgres://h/d?user=u&password=query%21-17", "İ=İ password=turkish-15", "ODD=password=", "ODD2=password", "ODD3=password='unclosed-16",
		"PWD=/home/user/work", "OLDPWD=/home/user", "SSH_AUTH_SOCK=/tmp/ssh-agent.1", "GOOGLE_KEY_FILE=/home/key.json", "ACODE_IDEMPOTENCY_KEY=v1:a:b/c/main:1",
		"XAUTHORITY=/root/.Xauthority", "GIT_AUTHOR_NAME=Somebody Else", "TOKENIZERS_PARALLELISM=disabled", "HOME=/home/user", "_=/usr/bin/env", "NOVALUE", "EMPTY_TOKEN=", "__=underscores",
	})
	want := []string{
		"abc/def+13==", "ado-pass-12", "auth-8-value", "cred-7-value", "https://k@sentry", "key-value-2", "other-10", "pass-five", "password-3",
		"pwd-value-6", "query!-17", "query%21-17", "quoted pass 11", "secret-4", "spaced-14", "token-value-1", "turkish-15", "unclosed-16", "url%2Dpass-9", "url-pass-9",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FromEnvironment (-want +got):\n%s", diff)
	}
}

// fragments returns texts that the properties mix, so that rules, secrets and masks
// meet.
func fragments(secrets []string) []string {
	return append([]string{
		"password=", `"token":`, `"`, "'", " ", "\n", "***", "://u:", "@h", "/", ":", "=", "sk-", "ghp_", "Abcd1234Efgh5678Ijkl9012", "Bearer ", "Basic dTpwYXNzd29yZA==",
		"eyJhbGciOiJI.", "eyJ", "xyz", "\\", "\\\"", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", ",", "&", "é", "\xff", "AKIA", "IOSFODNN7EXAMPLE", "_", "-", "{", "}",
	}, secrets...)
}

func drawCase(t *rapid.T) (*redact.Redactor, []string, string) {
	secrets := rapid.SliceOfN(rapid.OneOf(
		rapid.StringMatching(`[a-c*]{8,14}`), rapid.StringMatching(`[A-Za-z0-9"\\:/@= -]{8,20}`),
		rapid.SampledFrom([]string{"***ssword", "password=ab", `to"ken\:aa`, "ab\xffcdefghi", "sk-sk-sk-"})), 0, 4).Draw(t, "secrets")
	parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(fragments(secrets)), rapid.StringMatching(`[a-c*]{1,9}`)), 0, 14).Draw(t, "parts")
	return redact.New(secrets), secrets, strings.Join(parts, "")
}

// D1, D2.
func TestMaskedOnceAndForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, secrets, text := drawCase(t)
		once := r.String(text)
		if twice := r.String(once); twice != once {
			t.Fatalf("String(%q): got %q, then %q", text, once, twice)
		}
		for _, s := range secrets {
			if strings.Contains(once, s) {
				t.Fatalf("String(%q): got %q, which shows %q", text, once, s)
			}
		}
		if r.Changes([]byte(text)) != (once != text) {
			t.Fatalf("Changes(%q): got %v, but String gave %q", text, r.Changes([]byte(text)), once)
		}
	})
}

// D1, D2.
func TestValueMaskedOnceAndForAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, secrets, text := drawCase(t)
		name := rapid.SampledFrom([]string{"text", "password", "X " + text}).Draw(t, "name")
		once := r.Value(map[string]string{name: text})
		if twice := r.Value(once); !cmp.Equal(once, twice) {
			t.Fatalf("Value: got %v, then %v", once, twice)
		}
		for k, v := range once.(map[string]string) {
			for _, s := range secrets {
				if strings.Contains(v, s) || strings.Contains(k, s) {
					t.Fatalf("Value: got %q: %q, which shows %q", k, v, s)
				}
			}
		}
	})
}

func FuzzBytes(f *testing.F) {
	f.Add([]byte(`{"a":"fuzz-secret-1","password":"x y z 1 2"}`), "fuzz-secret-1")
	f.Add([]byte("\"a\xffbcdefghi\""), "a\xffbcdefghi")
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMIIEabcdefghijklmnop\n"), "")
	f.Fuzz(func(t *testing.T, raw []byte, secret string) {
		r := redact.New([]string{secret})
		text := r.Bytes(raw)
		if !bytes.Equal(text, r.Bytes(text)) {
			t.Fatalf("Bytes(%q): got %q, which changes again", raw, text)
		}
		if len(secret) >= redact.MinSecretBytes && bytes.Contains(text, []byte(secret)) {
			t.Fatalf("Bytes(%q): got %q, which shows %q", raw, text, secret)
		}
	})
}

// Hostile text must not cost the square of its length. Three times the length may not
// take six times as long. A busy machine gets more tries.
func TestHostileTextIsLinear(t *testing.T) {
	r := redact.New([]string{"aaaaaaaa", "abababab"})
	for _, unit := range []string{
		"-eyJ", "sk-ant-", "token=", "password='", "${token=", "$(token=", "://u:", "SG.", "a", "-----BEGIN PRIVATE KEY-----", "token:\"x token:'y", "Bearer ", "***",
		"authorization=", "curl ", "curl -u ", ".atlasv1.", "hooks.slack.com/", ":AA", "dt0c01.", "EAAA", "access_key=",
	} {
		clean := func(size int) time.Duration {
			text := []byte(strings.Repeat(unit, size/len(unit)))
			start := time.Now()
			if got := r.Bytes(text); len(got) > 2*len(text) {
				t.Errorf("Bytes of %q repeated: got %d bytes from %d", unit, len(got), len(text))
			}
			return time.Since(start)
		}
		short, long := time.Hour, time.Hour
		for tries := 0; tries < 20 && (tries == 0 || long > 6*short); tries++ {
			short, long = min(short, clean(32<<10)), min(long, clean(96<<10)) // some rules look at 16 KiB at a time
		}
		if long > 6*short {
			t.Errorf("Bytes of %q repeated: %v for 96 KiB, %v for 32", unit, long, short)
		}
	}
}

func BenchmarkClean(b *testing.B) {
	text := []byte(strings.Repeat("2025-01-02T03:04:05Z INFO ok  github.com/acode-dev/acode/session 0.012s: the task passes its tests\n", 1<<20/100))
	var secrets []string
	for i := range 20 {
		sum := base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{byte(17 * i), byte(i), 99}, 8))
		secrets = append(secrets, sum)
	}
	r := redact.New(secrets)
	value := map[string]string{"text": string(text)}
	b.Run("bytes", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			r.Bytes(text)
		}
	})
	b.Run("value", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			r.Value(value)
		}
	})
}

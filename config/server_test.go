package config_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/config"
)

const password = "hunter22"

// The password is in the configuration and never in output.
func TestPasswordIsNeverShown(t *testing.T) {
	for _, text := range []string{
		"postgres://me:" + password + "@db.example:5432/acode?sslmode=verify-full",
		"postgresql:///acode?host=/run&user=me&password=" + password,
		"postgres://me@db/acode?sslpassword=" + password,
	} {
		for name, s := range map[string]config.Sources{
			"file":     sources("sync:\n  url: "+text+"\n", ""),
			"variable": sources("", "", "ACODE_POSTGRES_URL="+text),
		} {
			l := load(t, s)
			if l.Config.Sync.URL != text {
				t.Errorf("%s: Load: got %q, want %q", name, l.Config.Sync.URL, text)
			}
			for _, v := range l.Values {
				if strings.Contains(v.Value+v.Origin, password) {
					t.Errorf("%s: Load shows the password: %+v", name, v)
				}
			}
			if got := value(l, "sync.url").Value; !strings.Contains(got, "acode") || !strings.Contains(got, "xxxxx") {
				t.Errorf("%s: sync.url is shown as %q", name, got)
			}
		}
	}
}

// An error never contains the password, even if the error is on its line.
func TestPasswordIsNotInErrors(t *testing.T) {
	for _, line := range []string{
		"url: mysql://me:" + password + "@db/acode", "url: postgres://me:" + password + "@db:port/acode",
		"url: [postgres://me:" + password + "@db/acode]", "address: postgres://me:" + password + "@db/acode",
		"url: postgres://me:" + password + "@db/acode\n  url: x", "url: \"postgres://me:" + password + "@db/acode",
		"url: postgres:///acode?password=" + password + "#fragment",
	} {
		for name, s := range map[string]config.Sources{
			"file": sources("sync:\n  "+line+"\n", ""), "project": sources("", "sync:\n  "+line+"\n"),
		} {
			_, err := config.Load(s)
			if err == nil {
				t.Errorf("%s: Load of %q: no error", name, line)
			} else if strings.Contains(err.Error(), password) {
				t.Errorf("%s: Load of %q tells the password: %v", name, line, err)
			}
		}
	}
	_, err := config.Load(sources("", "", "ACODE_POSTGRES_URL=postgres://me:"+password+"@db:port/acode"))
	if err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("Load of a wrong variable: got %v", err)
	}
}

// The line of an error hides even a password that is too short for the redactor.
func TestShortPassword(t *testing.T) {
	_, err := config.Load(sources("sync: {url: \"mysql:///acode?password=pw1&a=b\"}", ""))
	if err == nil || strings.Contains(err.Error(), "pw1") {
		t.Errorf("Load: got %v, want an error without the password", err)
	}
}

func TestListen(t *testing.T) {
	for text, valid := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:9464": true, "localhost:80": true, "unix:/run/a.sock": true,
		":9464": false, "127.0.0.1": false, "127.0.0.1:http": false, "127.0.0.1:65536": false, "unix:a.sock": false, "unix:": false,
	} {
		_, err := config.Load(sources("sync: {listen: \""+text+"\"}", ""))
		if (err == nil) != valid {
			t.Errorf("Load of listen %q: got %v, want valid %v", text, err, valid)
		}
	}
}

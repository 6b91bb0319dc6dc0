package redact_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/redact"
)

// Tokens of vendors are found by their form. None of these was ever valid.
func TestVendorTokens(t *testing.T) {
	r := redact.New(nil)
	fill := func(n int) string { return strings.Repeat("4fA9cE2b", n/8+1)[:n] }
	hexa := func(n int) string { return strings.Repeat("4fa9ce2b", n/8+1)[:n] }
	for _, secret := range []string{
		"glptt-" + hexa(40), "gldt-" + fill(20), "glrt-" + fill(20), "sk_prod_" + fill(24), "dop_v1_" + hexa(64), "shpat_" + hexa(32),
		"dapi" + hexa(32), "pul-" + hexa(40), "LTAI" + fill(20), "lin_api_" + fill(40), "dp.pt." + fill(43), "glsa_" + fill(32) + "_" + hexa(8),
		"ntn_" + fill(46), "rdme_" + fill(70), "EAAA" + fill(60), "AKCp" + fill(69), "hvs." + fill(95), "hvb." + fill(140), "sq0atp-" + fill(22),
		"pscale_tkn_" + fill(43), "glc_" + fill(60), "fo1_" + fill(43), "tk-us-" + fill(48), "HRKU-AA" + fill(58),
		"PMAK-" + hexa(24) + "-" + hexa(34), "xkeysib-" + hexa(64) + "-" + fill(16), "dt0c01." + fill(24) + "." + fill(64),
		"AGE-SECRET-KEY-1" + strings.ToUpper(fill(58)), "ABIA" + strings.ToUpper(fill(16)), hexa(14) + ".atlasv1." + fill(67), "123456789:AA" + fill(33),
	} {
		if got := r.String("a " + secret + " b"); got != "a ***"+secret[len(secret)-4:]+" b" {
			t.Errorf("String(%s…): got %q", secret[:8], got)
		}
	}
	for in, want := range map[string]string{
		"https://hooks.slack.com/services/T4FA9CE2B/B4FA9CE2B4/" + fill(24): "https://hooks.slack.com/***" + fill(24)[20:],
		`curl -H "Authorization: Token ` + hexa(40) + `" https://x`:         `curl -H "Authorization: Token ***ce2b" https://x`,
		"authorization=" + hexa(24):                                         "authorization=***ce2b",
		"curl -s -u anna:" + fill(16) + " https://x":                        "curl -s -u anna:***cE2b https://x",
		"curl --user 'anna:" + fill(16) + "' https://x":                     "curl --user 'anna:***cE2b' https://x",
		"AccountKey=" + fill(40) + ";EndpointSuffix=x.y":                    "AccountKey=***cE2b;EndpointSuffix=x.y",
		`signing_key: "` + fill(40) + `"`:                                   `signing_key: "***cE2b"`,
		"SPACES_ACCESS_KEY=" + fill(40):                                     "SPACES_ACCESS_KEY=***cE2b",
		"SharedAccessKeyName=all;SharedAccessKey=" + fill(40):               "SharedAccessKeyName=all;SharedAccessKey=***cE2b",
	} {
		if got := r.String(in); got != want || r.String(got) != got {
			t.Errorf("String(%.40s…): got %q, then %q, want %q", in, got, r.String(got), want)
		}
	}
}

// Texts that only look like tokens stay as they are.
func TestVendorLookalikes(t *testing.T) {
	r := redact.New(nil)
	for _, in := range []string{
		"dapic of things", "pul-" + strings.Repeat("x", 50), "ask about AAAA", "glc_name", "the hvs.go file", "x.atlasv1.y", "12:AA:34", "see https://hooks.slack.com/docs",
		"Authorization: required", "authorization: ${TOKEN_1}", "curl -u anna https://x", "curl -u anna:$PASSWORD https://x", "docker run -u 1000:1000 x; curl https://x",
		"AccountKey=short", "access_key_id: 12345678", "curl x\nrun -u anna:longpassword1",
		"sha256:" + strings.Repeat("4fa9ce2b", 8), "v1:01890000-0000-7000-8000-000000000001:t/s:main:1",
	} {
		if got := r.String(in); got != in {
			t.Errorf("String(%q): got %q", in, got)
		}
	}
}

package redact

import (
	"bytes"
	"strings"
)

// Sets of bytes in tokens after their prefix, and in the path of a webhook.
var (
	hexadecimal = classOf(digits + "abcdefABCDEF")
	path        = classOf(digits + letters + "/")
)

// vendorRules returns the rules for tokens of particular vendors. The list follows
// gitleaks. No other text begins with one of these prefixes.
func vendorRules() []rule {
	return []rule{
		token(&word, 20, "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-", "glimt-", "glft-", "glagent-", "gloas-", "glffct-"),
		token(&alnum, 16, "sk_prod_", "rk_prod_"),
		token(&hexadecimal, 32, "dop_v1_", "doo_v1_", "dor_v1_", "shpat_", "shpca_", "shppa_", "shpss_", "dapi", "sntryu_", "rubygems_"),
		token(&hexadecimal, 40, "pul-", "sgp_", "shippo_live_", "shippo_test_"),
		token(&alnum, 20, "LTAI", "lin_api_", "dp.pt.", "pnu_", "pplx-", "api_org_", "glsa_"),
		token(&alnum, 32, "ntn_", "rdme_", "ico-", "EZAK", "EZTK", "AGE-SECRET-KEY-1"),
		token(&alnum, 50, "EAAA", "AKCp"),
		token(&word, 20, "hvs.", "hvb.", "sq0atp-", "sq0csp-", "GOCSPX-", "glc_", "pscale_tkn_", "pscale_pw_", "pscale_oauth_"),
		token(&word, 32, "fo1_", "tk-us-", "duffel_live_", "duffel_test_", "HRKU-AA", "PMAK-", "xkeysib-", "sntrys_"),
		token(&wordDot, 60, "dt0c01."),
		{words: []string{"ABIA", "ACCA"}, match: matchAWS},
		// Terraform
		around(".atlasv1.", &alnum, 14, 14, 40),
		{words: []string{"hooks.slack.com/"}, match: matchSlackHook},
		// Telegram: the number of a bot comes first
		around(":AA", &digit, 8, 16, 30),
		{words: []string{"authorization"}, fold: true, match: matchAuthorization},
		{words: []string{"curl "}, match: matchCurl},
	}
}

// around returns the rule of a token that is known by its middle. At least before and
// at most most bytes of c come before it, and at least behind bytes of word after it.
func around(middle string, c *class, before, most, behind int) rule {
	return rule{words: []string{middle}, match: func(b []byte, i int, _ string) (span, int) {
		from := i
		for from > 0 && i-from < most && c[b[from-1]] {
			from--
		}
		end := word.run(b, i+len(middle))
		if i-from < before || end-i-len(middle) < behind {
			return span{}, i
		}
		return span{from: from, to: end, tail: true}, end
	}}
}

// matchSlackHook finds the path of a webhook, which is enough to post a message.
func matchSlackHook(b []byte, i int, host string) (span, int) {
	from := i + len(host)
	end := path.run(b, from)
	if end-from < 40 {
		return span{}, i
	}
	return span{from: from, to: end, tail: true}, end
}

// matchAuthorization finds the credentials after the scheme of a header. After bearer
// it masks credentials of any form. Basic has its own rule.
func matchAuthorization(b []byte, i int, name string) (span, int) {
	at := skipBlank(b, skipQuote(b, i+len(name)))
	if at == len(b) || b[at] != ':' && b[at] != '=' {
		return span{}, i
	}
	from, known := skipBlank(b, skipQuote(b, skipBlank(b, at+1))), false
	if scheme := alnum.run(b, from); scheme < len(b) && b[scheme] == ' ' && scheme > from {
		known = strings.EqualFold(string(b[from:scheme]), "bearer")
		from = skipBlank(b, scheme)
	}
	end := bearer.run(b, from)
	if !known && end-from < MinSecretBytes || !known && !bytes.ContainsAny(b[from:end], digits) || placeholder(b[from:end]) {
		return span{}, end
	}
	return span{from: from, to: end, tail: true}, end
}

// maxCurlBytes is how far an argument of curl is searched for.
const maxCurlBytes = 1 << 10

// matchCurl finds the password of -u user:password.
func matchCurl(b []byte, i int, _ string) (span, int) {
	line := b[i:min(len(b), i+maxCurlBytes)]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	for _, flag := range []string{" -u ", " --user "} {
		at := bytes.Index(line, []byte(flag))
		if at < 0 {
			continue
		}
		from := skipQuote(b, i+at+len(flag))
		end := from
		for end < len(b) && b[end] > ' ' && !quote(b[end]) && b[end] != '\\' {
			end++
		}
		colon := bytes.IndexByte(b[from:end], ':')
		if colon < 0 || end-from-colon-1 < MinSecretBytes || placeholder(b[from+colon+1:end]) {
			continue
		}
		return span{from: from + colon + 1, to: end, tail: true}, end
	}
	return span{}, i
}

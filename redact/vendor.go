package redact

import (
	"bytes"
	"strings"
)

// What many tokens are made of after their prefix, and what a path on a server is.
var (
	hexadecimal = classOf(digits + "abcdefABCDEF")
	path        = classOf(digits + letters + "/")
)

// vendorRules are the forms of tokens of particular vendors. gitleaks is the oracle for
// which there are; each prefix is one that nothing else begins with.
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
		around(".atlasv1.", &alnum, 14, 14, 40), // Terraform
		{words: []string{"hooks.slack.com/"}, match: matchSlackHook},
		around(":AA", &digit, 8, 16, 30), // Telegram: the number of a bot first
		{words: []string{"authorization"}, fold: true, match: matchAuthorization},
		{words: []string{"curl "}, match: matchCurl},
	}
}

// around makes the rule of a token whose middle gives it away: at least before bytes of c
// stand before it and at least behind letters or the like follow it.
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

// matchSlackHook takes the path of a webhook, which is all that it takes to post.
func matchSlackHook(b []byte, i int, host string) (span, int) {
	from := i + len(host)
	end := path.run(b, from)
	if end-from < 40 {
		return span{}, i
	}
	return span{from: from, to: end, tail: true}, end
}

// matchAuthorization takes what follows the scheme of a header, and all of it after
// bearer. Basic has a rule of its own.
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

// maxCurlBytes bounds the search for an argument of curl.
const maxCurlBytes = 1 << 10

// matchCurl takes the password of -u user:password.
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

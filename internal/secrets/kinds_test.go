package secrets_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// seed makes every run use the same secrets. None of them was ever in use.
const seed = 20

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hexa   = digits + "abcdef"
	alnum  = digits + lower + upper
	word   = alnum + "-_"
)

// kind is one secret. If a variable of acode's environment holds it, acode knows the
// value even where the text around it does not reveal it.
type kind struct {
	name string
	// value must not be found.
	value string
	// text is the secret as it appears in commands, outputs and files.
	text     string
	variable string
}

// maker makes random values.
type maker struct{ rng *rand.Rand }

func (m maker) pick(alphabet string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[m.rng.IntN(len(alphabet))])
	}
	return b.String()
}

func (m maker) base64(n int) string {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(m.rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func (m maker) jwt() string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]any{"alg": "HS256", "typ": "JWT"}) + "." +
		part(map[string]any{"sub": m.pick(digits, 12), "name": "Anna", "iat": 1516239022}) + "." + m.pick(word, 43)
}

// key returns a private key in PEM form. The tests search only for its lines.
func (m maker) key(header string, lines int) (body, text string) {
	var b strings.Builder
	for range lines {
		b.WriteString(m.pick(alnum+"+/", 64) + "\n")
	}
	return b.String(), "-----BEGIN " + header + "-----\n" + b.String() + "-----END " + header + "-----"
}

// kinds returns the planted secrets.
func kinds() []kind {
	m := maker{rand.New(rand.NewPCG(seed, seed))}
	var all []kind
	// bare adds a secret with a recognizable form.
	bare := func(name, value string) {
		all = append(all, kind{name: name, value: value, text: "fetched with " + value + " today"})
	}
	// within adds a secret that the text around it reveals.
	within := func(name, value, format string) {
		all = append(all, kind{name: name, value: value, text: fmt.Sprintf(format, value)})
	}
	known := func(name, variable, value string) {
		all = append(all, kind{name: name, value: value, text: "fetched with " + value + " today", variable: variable + "=" + value})
	}
	// Tokens with a prefix.
	bare("aws access key", "AKIA"+m.pick(upper+"234567", 16))
	bare("aws session key", "ASIA"+m.pick(upper+"234567", 16))
	bare("github pat", "ghp_"+m.pick(alnum, 36))
	bare("github fine-grained", "github_pat_"+m.pick(alnum+"_", 82))
	bare("github oauth", "gho_"+m.pick(alnum, 36))
	bare("github app", "ghs_"+m.pick(alnum, 36))
	bare("gitlab pat", "glpat-"+m.pick(word, 20))
	bare("gitlab deploy", "gldt-"+m.pick(word, 20))
	bare("gitlab runner", "glrt-"+m.pick(word, 20))
	bare("gitlab trigger", "glptt-"+m.pick(hexa, 40))
	bare("slack bot", "xoxb-"+m.pick(digits, 12)+"-"+m.pick(digits, 12)+"-"+m.pick(alnum, 24))
	bare("slack app", "xapp-1-"+m.pick(upper, 9)+"-"+m.pick(digits, 12)+"-"+m.pick(hexa, 40))
	bare("stripe live", "sk_live_"+m.pick(alnum, 24))
	bare("stripe restricted", "rk_live_"+m.pick(alnum, 24))
	bare("stripe prod", "sk_prod_"+m.pick(alnum, 24))
	bare("google api", "AIza"+m.pick(word, 34)+m.pick(alnum, 1))
	bare("openai", "sk-proj-"+m.pick(alnum, 58)+"T3BlbkFJ"+m.pick(alnum, 58))
	bare("anthropic", "sk-ant-api03-"+m.pick(word, 93)+"AA")
	bare("sendgrid", "SG."+m.pick(word, 22)+"."+m.pick(alnum, 43))
	bare("npm", "npm_"+m.pick(alnum, 36))
	bare("pypi", "pypi-AgEIcHlwaS5vcmc"+m.pick(word, 90))
	bare("hugging face", "hf_"+m.pick(lower+upper, 34))
	bare("digitalocean pat", "dop_v1_"+m.pick(hexa, 64))
	bare("digitalocean oauth", "doo_v1_"+m.pick(hexa, 64))
	bare("shopify", "shpat_"+m.pick(hexa, 32))
	bare("shopify secret", "shpss_"+m.pick(hexa, 32))
	bare("vault", "hvs."+m.pick(alnum, 95))
	bare("vault batch", "hvb."+m.pick(alnum, 140))
	bare("linear", "lin_api_"+m.pick(alnum, 40))
	bare("doppler", "dp.pt."+m.pick(alnum, 43))
	bare("grafana service", "glsa_"+m.pick(alnum, 32)+"_"+m.pick(hexa, 8))
	bare("grafana cloud", "glc_"+m.pick(alnum, 60))
	bare("planetscale", "pscale_tkn_"+m.pick(alnum, 43))
	bare("planetscale password", "pscale_pw_"+m.pick(alnum, 43))
	bare("postman", "PMAK-"+m.pick(hexa, 24)+"-"+m.pick(hexa, 34))
	bare("databricks", "dapi"+m.pick(hexa, 32))
	bare("rubygems", "rubygems_"+m.pick(hexa, 48))
	bare("pulumi", "pul-"+m.pick(hexa, 40))
	bare("sendinblue", "xkeysib-"+m.pick(hexa, 64)+"-"+m.pick(alnum, 16))
	bare("sentry user", "sntryu_"+m.pick(hexa, 64))
	bare("square", "sq0atp-"+m.pick(alnum, 22))
	bare("square long", "EAAA"+m.pick(alnum, 60))
	bare("alibaba", "LTAI"+m.pick(alnum, 20))
	bare("terraform cloud", m.pick(lower+digits, 14)+".atlasv1."+m.pick(alnum, 67))
	bare("perplexity", "pplx-"+m.pick(alnum, 48))
	bare("prefect", "pnu_"+m.pick(alnum, 36))
	bare("fly", "fo1_"+m.pick(alnum, 43))
	bare("notion", "ntn_"+m.pick(digits, 11)+m.pick(alnum, 35))
	bare("artifactory", "AKCp"+m.pick(alnum, 69))
	bare("dynatrace", "dt0c01."+m.pick(upper+digits, 24)+"."+m.pick(upper+digits, 64))
	bare("duffel", "duffel_live_"+m.pick(alnum, 43))
	bare("easypost", "EZAK"+m.pick(alnum, 54))
	bare("heroku", "HRKU-AA"+m.pick(alnum, 58))
	bare("scalingo", "tk-us-"+m.pick(alnum, 48))
	bare("readme", "rdme_"+m.pick(lower+digits, 70))
	bare("age", "AGE-SECRET-KEY-1"+m.pick("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
	bare("jwt", m.jwt())
	within("slack webhook", m.pick(alnum, 24), "posted to https://hooks.slack.com/services/T"+m.pick(upper, 8)+"/B"+m.pick(upper, 10)+"/%s now")
	// Private keys.
	for _, header := range []string{"RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY"} {
		body, text := m.key(header, 8)
		all = append(all, kind{name: strings.ToLower(header), value: strings.TrimSpace(body), text: text})
	}
	body, _ := m.key("PRIVATE KEY", 3)
	escaped := strings.ReplaceAll(strings.TrimSpace(body), "\n", `\n`)
	within("service account", escaped, `{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n"}`)
	// Secrets that the text around them reveals.
	within("bearer", m.pick(word, 40), `curl -H "Authorization: Bearer %s" https://shop.test/`)
	within("basic", base64.StdEncoding.EncodeToString([]byte("anna:"+m.pick(alnum, 20))), `curl -H "Authorization: Basic %s" https://shop.test/`)
	within("token header", m.pick(hexa, 40), `curl -H "Authorization: Token %s" https://shop.test/`)
	within("curl user", m.pick(alnum, 20), "curl -s -u anna:%s https://shop.test/")
	within("api key header", m.pick(alnum, 32), `curl -H "X-Api-Key: %s" https://shop.test/`)
	within("postgres", m.pick(alnum, 20), "postgres://shop:%s@db.test:5432/shop")
	within("mongodb", m.pick(alnum, 20), "mongodb+srv://shop:%s@cluster0.test/shop?retryWrites=true")
	within("redis", m.pick(alnum, 20), "redis://:%s@cache.test:6379/0")
	within("amqp", m.pick(alnum, 20), "amqp://shop:%s@queue.test/")
	within("jdbc", m.pick(alnum, 20), "jdbc:mysql://db.test/shop?user=shop&password=%s&ssl=true")
	within("libpq", m.pick(alnum, 20), "host=db.test user=shop password=%s sslmode=require")
	within("ado", m.pick(alnum, 20), "Server=db.test;User Id=shop;Password=%s;Encrypt=true")
	within("azure storage", m.base64(64), "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=%s;EndpointSuffix=core.test")
	within("azure bus", m.base64(32), "Endpoint=sb://shop.test/;SharedAccessKeyName=all;SharedAccessKey=%s")
	within("aws secret", m.pick(alnum+"+/", 40), "aws_secret_access_key = %s")
	within("yaml password", m.pick(alnum, 16), "db_password: %s")
	within("json token", m.pick(alnum, 32), `{"user": "anna", "access_token": "%s"}`)
	within("api key", m.pick(alnum, 32), "SHOP_API_KEY=%s")
	within("client secret", m.pick(alnum, 40), `client_secret = "%s"`)
	within("signing key", m.pick(alnum, 40), `signing_key: "%s"`)
	within("access key", m.pick(alnum, 40), `export SPACES_ACCESS_KEY='%s'`)
	within("telegram", m.pick(digits, 9)+":AA"+m.pick(alnum, 33), "https://api.telegram.org/bot%s/getMe")
	// Secrets that only their variable reveals.
	known("variable token", "SHOP_TOKEN", m.pick(alnum, 24))
	known("variable password", "SHOP_DB_PASSWORD", m.pick(alnum+"!#%&*", 20))
	known("variable secret key", "AWS_SECRET_ACCESS_KEY", m.pick(alnum+"+/", 40))
	known("variable signing key", "SHOP_SIGNING_KEY", m.base64(32))
	pass := m.pick(alnum, 18)
	all = append(all, kind{name: "variable url", value: pass, text: "fetched with " + pass + " today", variable: "DATABASE_URL=postgres://shop:" + pass + "@db.test/shop"})
	return all
}

package airc_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/federation"
)

// authority returns a pool with a new authority, and a function that issues certificates for a
// domain.
func authority(t *testing.T) (pool *x509.CertPool, certify func(domain string) *x509.Certificate) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, public, by any) *x509.Certificate {
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if parent == nil {
			parent = template
		}
		text, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(text)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, public, key)
	pool = x509.NewCertPool()
	pool.AddCert(root)
	return pool, func(domain string) *x509.Certificate {
		return issue(&x509.Certificate{DNSNames: []string{domain}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, root, public, key)
	}
}

// relayFrom sends a relay from an address, with a client certificate or nil for none.
func (w *world) relayFrom(t *testing.T, from string, shown *x509.Certificate, body map[string]any) (status int, answer map[string]any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/federation/relay", strings.NewReader(string(text)))
	request.RemoteAddr = from
	if shown != nil {
		request.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown}}
	}
	recorder := httptest.NewRecorder()
	w.mux.ServeHTTP(recorder, request)
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", recorder.Body, err)
	}
	return recorder.Code, answer
}

// spec: airc-shapes "Sessions and proofs"
func TestUnsignedRelayStepsOnlyFromItsRegistry(t *testing.T) {
	t.Parallel()
	pool, certify := authority(t)
	otherPool, otherCertify := authority(t)
	ofA, ofC, byOther := certify("a.test"), certify("c.test"), otherCertify("a.test")
	networks := peers.Config{Networks: []string{"192.0.2.0/24", "2001:db8:1::/64"}}
	certificate := peers.Config{ClientCA: "a.pem"}
	both := peers.Config{Networks: networks.Networks, ClientCA: "a.pem"}
	for name, test := range map[string]struct {
		peer   peers.Config
		mutual bool // all registries present certificates
		from   string
		shown  *x509.Certificate
		steps  bool
		code   string // of the refusal; "" for a held relay
	}{
		"from its network":                               {peer: networks, from: "192.0.2.7:1", steps: true},
		"from its network, in IPv6":                      {peer: networks, from: "[2001:db8:1::5]:1", steps: true},
		"from its network, mapped to IPv6":               {peer: networks, from: "[::ffff:192.0.2.7]:1", steps: true},
		"from another network":                           {peer: networks, from: attacker},
		"from another network, in IPv6":                  {peer: networks, from: "[2001:db8:2::5]:1"},
		"from an unknown address":                        {peer: networks, from: "@"},
		"from another network, with a certificate":       {peer: networks, from: attacker, shown: ofA},
		"with its certificate":                           {peer: certificate, from: attacker, shown: ofA, steps: true},
		"without a certificate":                          {peer: certificate, from: "192.0.2.7:1"},
		"with the certificate of another one":            {peer: certificate, from: attacker, shown: ofC},
		"with a certificate by another authority":        {peer: certificate, from: attacker, shown: byOther},
		"from its network, with its certificate":         {peer: both, from: "192.0.2.7:1", shown: ofA, steps: true},
		"from its network, without it":                   {peer: both, from: "192.0.2.7:1"},
		"from elsewhere, with it":                        {peer: both, from: attacker, shown: ofA},
		"with mutual TLS":                                {peer: peers.Config{}, mutual: true, from: attacker, shown: byOther, steps: true},
		"with mutual TLS, without a certificate":         {peer: networks, mutual: true, from: "192.0.2.7:1", code: "FEDERATION_BLOCKED"},
		"with mutual TLS, and the certificate of a peer": {peer: networks, mutual: true, from: "192.0.2.7:1", shown: ofA, code: "FEDERATION_BLOCKED"},
		"with mutual TLS, from another network":          {peer: networks, mutual: true, from: attacker, shown: byOther, code: "INVALID_REGISTRY_SIGNATURE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := newInternet()
			net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
			test.peer.Domain, test.peer.Unsigned = "a.test", peers.ModeAllow
			b := newWorld(t, func(c *airc.Config, d *airc.Deps) {
				c.Domain, d.Fetch, c.Peers = "b.test", net.client(), []peers.Config{test.peer}
				d.Authorities = map[string]*x509.CertPool{"a.pem": pool}
				if test.mutual {
					c.MTLS.CAFile, d.Authorities["all.pem"] = "all.pem", otherPool
				}
			})
			amy := b.resident(t, "b.test", "amy_1", 0x05)
			_, sent, err := amy.Send(t.Context(), "scout_7@a.test", "please", request("Cite"))
			if err != nil {
				t.Fatal(err)
			}
			id := parseHandoff(t, sent["handoff"].(map[string]any))
			accept := forge(t, federation.SigningKey{}, map[string]any{"payload": ack(sent["id"].(string), "received")})
			status, answer := b.relayFrom(t, test.from, test.shown, accept)
			want, verbs := "202", "offer"
			switch {
			case test.steps:
				want, verbs = "201", "offer accept"
			case test.code != "":
				want = map[string]string{"FEDERATION_BLOCKED": "403 ", "INVALID_REGISTRY_SIGNATURE": "400 "}[test.code] + test.code
			}
			if got := told(status, answer, nil); got != want {
				t.Errorf("an unsigned accept: %s %v, want %s", got, answer["message"], want)
			}
			if got := b.verbs(t, id); got != verbs {
				t.Errorf("filed %q, want %q", got, verbs)
			}
		})
	}
}

// With required certificates, a registry still signs its relays.
func TestUnsignedRelayWithCertificateIsRefused(t *testing.T) {
	t.Parallel()
	pool, certify := authority(t)
	for unsigned, want := range map[string]string{"": "400 INVALID_REGISTRY_SIGNATURE", peers.ModeHold: "400 INVALID_REGISTRY_SIGNATURE", peers.ModeAllow: "202"} {
		b := newWorld(t, func(c *airc.Config, d *airc.Deps) {
			c.Domain, d.Fetch, c.Peers = "b.test", newInternet().client(), []peers.Config{{Domain: "a.test", Unsigned: unsigned}}
			c.MTLS.CAFile, d.Authorities = "all.pem", map[string]*x509.CertPool{"all.pem": pool}
		})
		b.resident(t, "b.test", "amy_1", 0x05)
		status, answer := b.relayFrom(t, attacker, certify("a.test"), forge(t, federation.SigningKey{}, nil))
		if got := told(status, answer, nil); got != want {
			t.Errorf("unsigned = %q: %s %v, want %s", unsigned, got, answer["message"], want)
		}
	}
}

func TestOpenRefusesUnsignedPeerOfAnyAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peer   peers.Config
		mutual string
		want   []string // keys with mistakes
	}{
		"anywhere":                   {peers.Config{Unsigned: "allow"}, "", []string{"peers.unsigned"}},
		"anywhere, while it is held": {peers.Config{Unsigned: "allow", Mode: peers.ModeHold}, "", []string{"peers.unsigned"}},
		"networks":                   {peers.Config{Unsigned: "allow", Networks: []string{"192.0.2.0/24", "2001:db8::/48"}}, "", nil},
		"a certificate":              {peers.Config{Unsigned: "allow", ClientCA: "a.pem"}, "", nil},
		"mutual TLS":                 {peers.Config{Unsigned: "allow"}, "all.pem", nil},
		"held":                       {peers.Config{Unsigned: "hold"}, "", nil},
		"all addresses":              {peers.Config{Unsigned: "allow", Networks: []string{"0.0.0.0/0"}}, "", []string{"peers.networks"}},
		"all addresses of IPv6":      {peers.Config{Unsigned: "allow", Networks: []string{"::/0"}}, "", []string{"peers.networks"}},
		"an address":                 {peers.Config{Unsigned: "allow", Networks: []string{"192.0.2.7"}}, "", []string{"peers.networks"}},
		"a name":                     {peers.Config{Networks: []string{"peer.example"}}, "", []string{"peers.networks"}},
	} {
		cfg := airc.DefaultConfig()
		test.peer.Domain, cfg.MTLS.CAFile = "a.test", test.mutual
		cfg.Peers = []peers.Config{test.peer}
		_, err := airc.Open(cfg, newWorld(t).deps)
		var keys []string
		if mistake, ok := errors.AsType[*bridge.KeyError](err); ok {
			keys = append(keys, mistake.Key)
		}
		if !slices.Equal(keys, test.want) {
			t.Errorf("from %s: %v, want mistakes in %v", name, err, test.want)
		}
	}
}

// The name of an unverified sender is not an address. The refusal names the right address.
func TestPostMessageNamesAddressOfUnverifiedSender(t *testing.T) {
	t.Parallel()
	net := newInternet()
	net.join(t, "a.test", 0x0a, peers.Config{Domain: "b.test"})
	b := net.join(t, "b.test", 0x0b, peers.Config{Domain: "a.test"})
	amy := b.resident(t, "b.test", "amy_1", 0x05)
	if got := b.relay(t, attacker, forge(t, federation.SigningKey{}, map[string]any{"payload": request("Cite three sources")})); got != "202" {
		t.Fatal(got)
	}
	if got := told(amy.Consent(t.Context(), "?scout_7@a.test", "accept")); got != "200" {
		t.Fatal(got)
	}
	held := inbox(t, amy)
	offer := held[len(held)-1]
	if offer.From != "?scout_7@a.test" || offer.Payload.Data["handoff"] != nil {
		t.Errorf("accepted, it reads %+v", offer)
	}
	for name, payload := range map[string]any{"text": nil, "an answer to the offer": ack(offer.ID, "received")} {
		status, answer, err := amy.Send(t.Context(), offer.From, "yes", payload)
		if said, _ := answer["message"].(string); err != nil || status != http.StatusNotFound || !strings.HasSuffix(said, "write to scout_7@a.test instead") {
			t.Errorf("%s to the name of an unverified sender: %d %v, %v", name, status, answer, err)
		}
	}
	if got := told(amy.Send(t.Context(), "scout_7@a.test", "yes", nil)); got != "202" {
		t.Errorf("to the address that the refusal names: %s", got)
	}
}

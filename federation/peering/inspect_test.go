package peering_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/signing"
)

func keyOf(name string) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(append([]byte(name), make([]byte, ed25519.SeedSize-len(name))...))
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
}

// other is another home, named as the host of its address. A test may change its documents until
// the home is asked.
type other struct {
	*httptest.Server
	profile federation.HomeProfile
	text    []byte                // in place of the profile
	key     federation.SigningKey // signs the profile
	keys    []string              // names of the keys in its DID document
}

func newOther(t *testing.T) *other {
	t.Helper()
	o := unstarted(t)
	o.Start()
	return o
}

func unstarted(t *testing.T) *other {
	t.Helper()
	const home = federation.HomeID("127.0.0.1")
	o := &other{key: keyOf("b"), keys: []string{"b"}}
	o.profile = federation.HomeProfile{
		Type: federation.HomeProfileType, V: federation.HomeProtocol, Home: home, DID: home.DID(), Versions: []int{federation.HomeProtocol},
		Limits: federation.HomeLimits{Steps: 256, Bytes: 2 << 20},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+string(federation.ProfilePath), func(w http.ResponseWriter, r *http.Request) {
		said := o.profile
		if said.Sent.IsZero() {
			said.Sent = time.Now()
		}
		text, err := json.Marshal(said)
		if o.text != nil {
			text = o.text
		}
		signature, errSign := signing.SignHome(r.Context(), o.key, text)
		if err != nil || errSign != nil {
			t.Error(err, errSign)
		}
		w.Header().Set(federation.SignatureHeader, signature)
		_, _ = w.Write(text)
	})
	mux.HandleFunc("GET /.well-known/did.json", func(w http.ResponseWriter, _ *http.Request) {
		var methods []string
		for _, name := range o.keys {
			methods = append(methods, fmt.Sprintf(`{"id":"#1","type":"Multikey","controller":%q,"publicKeyMultibase":%q}`,
				o.profile.DID, strings.TrimPrefix(string(keyOf(name).DID), "did:key:")))
		}
		fmt.Fprintf(w, `{"id":%q,"verificationMethod":[%s]}`, o.profile.DID, strings.Join(methods, ","))
	})
	o.Server = httptest.NewUnstartedServer(mux)
	t.Cleanup(o.Close)
	return o
}

func finding(t *testing.T, p *peering.Peering, o *other, check string) federation.Finding {
	t.Helper()
	found, err := p.Inspect(t.Context(), peering.Request{URL: o.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found.Findings {
		if f.What == check {
			return f
		}
	}
	t.Fatalf("no finding on %q in %+v", check, found.Findings)
	return federation.Finding{}
}

func TestInspectChecksFindFaults(t *testing.T) {
	t.Parallel()
	const ok, warn, fail = federation.FindingOK, federation.FindingWarn, federation.FindingFail
	named := func(o *other, home federation.HomeID) { o.profile.Home, o.profile.DID = home, home.DID() }
	for _, test := range []struct {
		check, name string
		change      func(g *gateway, o *other)
		want        federation.FindingState
		detail      string
	}{
		{"name", "the host of the address", func(*gateway, *other) {}, ok, "127.0.0.1"},
		{"name", "another name", func(_ *gateway, o *other) { named(o, "b.test") }, warn, "not the host of its address"},
		{"name", "the name of this home", func(_ *gateway, o *other) { named(o, "a.test") }, fail, "this gateway's own name"},
		{"name", "the name of a network link", func(g *gateway, _ *other) { g.links["127.0.0.1"] = peering.Link{} }, fail, "the name of another link"},
		{"name", "a peer of the configuration", func(g *gateway, o *other) { g.links["127.0.0.1"] = peering.Link{Home: true, URL: o.URL} }, fail, "is a peer already, at http://127"},
		{"name", "a peer at another address", func(g *gateway, _ *other) {
			g.links["127.0.0.1"] = peering.Link{Home: true, URL: "https://elsewhere.test", Added: true}
		}, fail, "is a peer already, at https://elsewhere.test"},
		{"name", "a peer that was added before", func(g *gateway, o *other) { g.links["127.0.0.1"] = peering.Link{Home: true, URL: o.URL, Added: true} }, ok, "is known already"},
		{"tls", "plain HTTP", func(*gateway, *other) {}, warn, "none"},
		{"did", "its own key", func(*gateway, *other) {}, ok, "did:web:127.0.0.1 has signed this with"},
		{"did", "the second of its keys", func(_ *gateway, o *other) { o.keys = []string{"x", "b"} }, ok, "has signed this"},
		{"did", "a key that it does not publish", func(_ *gateway, o *other) { o.keys = []string{"x"} }, fail, "not by a key of the home"},
		{"did", "no key", func(_ *gateway, o *other) { o.keys = nil }, fail, "has no key"},
		{"clock", "the same time", func(*gateway, *other) {}, ok, "as here"},
		{"clock", "half a minute behind", func(_ *gateway, o *other) { o.profile.Sent = time.Now().Add(-30 * time.Second) }, warn, "s apart"},
		{"clock", "half a minute ahead", func(_ *gateway, o *other) { o.profile.Sent = time.Now().Add(30 * time.Second) }, warn, "s apart"},
		{"clock", "an hour behind", func(_ *gateway, o *other) { o.profile.Sent = time.Now().Add(-time.Hour) }, fail, "more than 1m0s is refused"},
		{"versions", "this one and a later one", func(_ *gateway, o *other) { o.profile.Versions = []int{1, 2} }, ok, "1"},
		{"versions", "a later one", func(_ *gateway, o *other) { o.profile.Versions = []int{2} }, fail, "it speaks [2], and this home 1"},
		{"limits", "as large as ours", func(*gateway, *other) {}, ok, "256 steps and 2097152 bytes at once"},
		{"limits", "fewer steps", func(_ *gateway, o *other) { o.profile.Limits.Steps = 255 }, fail, "it accepts 255 steps"},
		{"limits", "fewer bytes", func(_ *gateway, o *other) { o.profile.Limits.Bytes = 1 << 20 }, fail, "this home sends up to 256 and 2097152"},
		{"path", "that of the configuration", func(*gateway, *other) {}, ok, "https"},
	} {
		t.Run(test.check+": "+test.name, func(t *testing.T) {
			t.Parallel()
			g, o := newGateway(), newOther(t)
			test.change(g, o)
			f := finding(t, peering.New(g.config()), o, test.check)
			if f.State != test.want || !strings.Contains(f.Detail, test.detail) {
				t.Errorf("%s: %s, want %s with %q", f.State, f.Detail, test.want, test.detail)
			}
		})
	}
}

// certificate returns one for 127.0.0.1 that ends at a time, and a configuration that trusts it.
func certificate(t *testing.T, ends time.Time) (tls.Certificate, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func TestInspectWarnsOfExpiringCertificates(t *testing.T) {
	t.Parallel()
	for days, want := range map[int]federation.FindingState{15: federation.FindingOK, 13: federation.FindingWarn} {
		ends := time.Now().AddDate(0, 0, days)
		own, trust := certificate(t, ends)
		g, o := newGateway(), unstarted(t)
		o.TLS = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
		o.StartTLS()
		cfg := g.config()
		cfg.Fetch.TLS = trust
		f := finding(t, peering.New(cfg), o, "tls")
		if f.State != want || f.Detail != "TLS 1.3, certificate good until "+ends.UTC().Format(time.DateOnly) {
			t.Errorf("%d days left: %s, %s", days, f.State, f.Detail)
		}
	}
}

func TestInspectStopsWithoutAProfile(t *testing.T) {
	t.Parallel()
	g, o := newGateway(), newOther(t)
	o.text = []byte(`{"type":"home"}`)
	_, err := peering.New(g.config()).Inspect(t.Context(), peering.Request{URL: o.URL, AllowPrivate: true})
	if reasonOf(err) != peering.Unreadable || !strings.Contains(err.Error(), "read /.well-known/baton") {
		t.Errorf("got %v", err)
	}
}

func TestInspectionFailedReturnsTheFirstFailure(t *testing.T) {
	t.Parallel()
	found := peering.Inspection{Findings: []federation.Finding{
		{What: "name", State: federation.FindingWarn}, {What: "clock", State: federation.FindingFail}, {What: "did", State: federation.FindingFail},
	}}
	if f, ok := found.Failed(); !ok || f.What != "clock" {
		t.Errorf("got %+v, %t", f, ok)
	}
	if f, ok := (peering.Inspection{}).Failed(); ok {
		t.Errorf("got %+v", f)
	}
}

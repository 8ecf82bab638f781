package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/certificate"
)

// authority is a gateway's side of ACME: listeners for challenges, and a server that issues.
type authority struct {
	*certificate.Authority

	pebble *bridgetest.Pebble
	cfg    certificate.AuthorityConfig
	served *bridge.Certificate
}

// newAuthority starts listeners for both kinds of challenges, and an ACME server that reaches the named
// ones.
func newAuthority(t *testing.T, reached []string, challenges ...string) *authority {
	t.Helper()
	a := &authority{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.ServeHTTP(w, r) })
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	var lc net.ListenConfig
	secure, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.served = bridge.NewCertificate(nil, func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return a.Challenge(hello) })
	server := &http.Server{Handler: handler}
	go server.Serve(tls.NewListener(secure, a.served.Config("h2", "http/1.1", bridge.ChallengeProtocol)))
	t.Cleanup(func() { server.Close() })
	var cfg bridgetest.PebbleConfig
	if slices.Contains(reached, certificate.HTTP01) {
		cfg.HTTPPort = plain.Listener.Addr().(*net.TCPAddr).Port
	}
	if slices.Contains(reached, certificate.TLSALPN01) {
		cfg.TLSPort = secure.Addr().(*net.TCPAddr).Port
	}
	a.pebble = bridgetest.NewPebble(t, cfg)
	a.cfg = certificate.AuthorityConfig{
		Directory: a.pebble.Directory, Email: "ops@gw.example", Domains: []string{"gw.example", "irc.gw.example"},
		Folder: filepath.Join(t.TempDir(), "acme"), Challenges: challenges, Roots: x509.NewCertPool(),
	}
	text, err := os.ReadFile(a.pebble.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Roots.AppendCertsFromPEM(text)
	a.Authority = certificate.NewAuthority(a.cfg)
	return a
}

// check fails unless a certificate is that of the ACME server for both names.
func (a *authority) check(t *testing.T, c *tls.Certificate) {
	t.Helper()
	between := x509.NewCertPool()
	for _, der := range c.Certificate[1:] {
		if authority, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(authority)
		}
	}
	for _, name := range a.cfg.Domains {
		if _, err := c.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: a.pebble.Roots, Intermediates: between}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthorityIssuesByEachChallenge(t *testing.T) {
	both := []string{certificate.TLSALPN01, certificate.HTTP01}
	for name, test := range map[string]struct{ reached, tried []string }{
		"HTTP-01":                         {[]string{certificate.HTTP01}, []string{certificate.HTTP01}},
		"TLS-ALPN-01":                     {[]string{certificate.TLSALPN01}, []string{certificate.TLSALPN01}},
		"HTTP-01 after TLS-ALPN-01 fails": {[]string{certificate.HTTP01}, both},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, test.reached, test.tried...)
			issued, err := a.Current(t.Context(), time.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
			a.check(t, issued)
			if again, err := a.Current(t.Context(), time.Now(), issued); err != nil || again != issued {
				t.Errorf("a valid one was ordered again: %v", err)
			}
		})
	}
}

func TestAuthorityRenewsInTime(t *testing.T) {
	a := newAuthority(t, []string{certificate.HTTP01}, certificate.HTTP01)
	issued, err := a.Current(t.Context(), time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	lifetime := issued.Leaf.NotAfter.Sub(issued.Leaf.NotBefore)
	early := issued.Leaf.NotAfter.Add(-min(lifetime/3, 30*24*time.Hour) - time.Minute)
	if same, err := a.Current(t.Context(), early, issued); err != nil || same != issued {
		t.Errorf("it was renewed early: %v", err)
	}
	renewed, err := a.Current(t.Context(), early.Add(2*time.Minute), issued)
	if err != nil || renewed.Leaf.SerialNumber.Cmp(issued.Leaf.SerialNumber) == 0 {
		t.Fatalf("it was not renewed: %v", err)
	}
	a.check(t, renewed)
}

func TestAuthorityKeepsTheCertificateOverARestart(t *testing.T) {
	a := newAuthority(t, []string{certificate.HTTP01}, certificate.HTTP01)
	if kept, err := a.Kept(); kept != nil || err != nil {
		t.Errorf("before the first order: %v, %v", kept, err)
	}
	issued, err := a.Current(t.Context(), time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	again := certificate.NewAuthority(a.cfg)
	kept, err := again.Kept()
	if err != nil || kept == nil || kept.Leaf.SerialNumber.Cmp(issued.Leaf.SerialNumber) != 0 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	if _, err := again.Current(t.Context(), time.Now(), kept); err != nil || a.pebble.Orders.Load() != 1 {
		t.Errorf("%d orders: %v", a.pebble.Orders.Load(), err)
	}
	for _, name := range []string{"account.key", "certificate.pem"} {
		if info, err := os.Stat(filepath.Join(a.cfg.Folder, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	a.cfg.Domains = append(a.cfg.Domains, "new.gw.example")
	if kept, err := certificate.NewAuthority(a.cfg).Kept(); kept != nil || err != nil {
		t.Errorf("a certificate without the new domain is kept: %v, %v", kept, err)
	}
}

func TestAuthorityFailureKeepsTheCertificate(t *testing.T) {
	a := newAuthority(t, []string{certificate.HTTP01}, certificate.HTTP01)
	var log strings.Builder
	keeper := certificate.NewKeeper(a.served, a.Current, slog.New(slog.NewTextHandler(&log, nil)))
	keeper.Look(t.Context(), time.Now())
	issued := a.served.Current()
	if issued == nil {
		t.Fatal(keeper.Problem())
	}
	a.pebble.Broken.Store(true)
	due := issued.Leaf.NotAfter.Add(-time.Hour)
	keeper.Look(t.Context(), due)
	if a.served.Current() != issued || !strings.Contains(keeper.Problem(), a.pebble.Directory) || !strings.Contains(keeper.Problem(), "500") {
		t.Errorf("the problem is %q", keeper.Problem())
	}
	a.pebble.Broken.Store(false)
	keeper.Look(t.Context(), due.Add(30*time.Second))
	if keeper.Problem() == "" {
		t.Error("it was asked again within a minute")
	}
	keeper.Look(t.Context(), due.Add(2*time.Minute))
	if keeper.Problem() != "" || a.served.Current() == issued {
		t.Errorf("after the directory is back: %q", keeper.Problem())
	}
	if got := strings.Count(log.String(), "certificate not replaced"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
}

func TestAuthorityNamesTheDomainThatItCannotReach(t *testing.T) {
	a := newAuthority(t, nil, certificate.TLSALPN01, certificate.HTTP01)
	_, err := a.Current(t.Context(), time.Now(), nil)
	if err == nil || !strings.Contains(err.Error(), "gw.example") || !strings.Contains(err.Error(), "tls-alpn-01: ") || !strings.Contains(err.Error(), "http-01: ") {
		t.Errorf("got %v", err)
	}
	before := a.pebble.Orders.Load()
	if _, again := a.Current(t.Context(), time.Now(), nil); !errors.Is(again, err) || a.pebble.Orders.Load() != before {
		t.Errorf("it ordered again at once: %v", again)
	}
	a.Retry()
	if _, err := a.Current(t.Context(), time.Now(), nil); err == nil || a.pebble.Orders.Load() == before {
		t.Errorf("it did not order again after Retry: %v", err)
	}
}

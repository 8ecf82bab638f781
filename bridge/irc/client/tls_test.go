package client_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
)

// secured is testConfig with TLS besides.
func secured() client.Config {
	cfg := testConfig()
	cfg.TLSListen = "127.0.0.1:0"
	return cfg
}

// dialTLS connects a client over TLS, and returns why it could not.
func (h *house) dialTLS(t *testing.T, cfg *tls.Config) (*peer, error) {
	t.Helper()
	cfg.InsecureSkipVerify = true
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: cfg}
	conn, err := dialer.DialContext(t.Context(), "tcp", h.link.Describe().Negotiated["tls_listen"])
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{conn: conn, lines: bufio.NewReader(conn)}, nil
}

// overTLS is dialTLS for one that must work.
func (h *house) overTLS(t *testing.T, certs ...tls.Certificate) *peer {
	t.Helper()
	p, err := h.dialTLS(t, &tls.Config{Certificates: certs})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	cert, err := bridgetest.NewCertificate("ada")
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestTLSCertificateLogsIn(t *testing.T) {
	t.Parallel()
	h, cert := start(t, secured()), certificate(t)
	h.gateway.bound["client "+bridgetest.Fingerprint(cert)] = federation.BoundName{DID: ada}
	p := h.overTLS(t, cert)
	p.say(t, "CAP LS 302")
	p.until(t, "*sasl=ATPROTO-CHALLENGE,SCRAM-SHA-256,EXTERNAL,PLAIN *")
	p.say(t, "AUTHENTICATE EXTERNAL")
	p.until(t, "*AUTHENTICATE +")
	p.say(t, "AUTHENTICATE +")
	p.until(t, "*903*")
	p.register(t, "ada", "sasl")
	p.say(t, "WHOIS ada")
	p.until(t, "*330 ada ada "+string(ada)+"*")
	p.until(t, "*671 ada ada :is using a secure connection")

	stranger := certificate(t)
	for name, tt := range map[string]struct {
		client *peer
		why    string
	}{
		"a certificate of nobody": {h.overTLS(t, stranger), "no DID is bound to the certificate " + bridgetest.Fingerprint(stranger)},
		"none":                    {h.overTLS(t), "the connection has no certificate"},
	} {
		tt.client.say(t, "AUTHENTICATE EXTERNAL", "AUTHENTICATE +")
		if got := tt.client.until(t, "* 904 *"); !strings.HasSuffix(got, tt.why) {
			t.Errorf("%s: %q", name, got)
		}
	}
	plain := dial(t, h.addr)
	plain.say(t, "AUTHENTICATE EXTERNAL")
	plain.until(t, "* 908 * ATPROTO-CHALLENGE,SCRAM-SHA-256,PLAIN *")
}

// loginByToken returns the line that shows a token.
func loginByToken(as, name, token string) string {
	return "AUTHENTICATE " + base64.StdEncoding.EncodeToString([]byte(as+"\x00"+name+"\x00"+token))
}

// mint files a token, and returns it.
func (h *house) mint(t *testing.T, name string, scope federation.Scope, expires time.Time) string {
	t.Helper()
	text, token, err := federation.NewOperatorToken(strings.NewReader(strings.Repeat(name, 32)))
	token.Name, token.Scope, token.Created, token.Expires = name, scope, time.Now(), expires
	if err := errors.Join(err, h.record.AddToken(t.Context(), token)); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokenOfABoundNameLogsIn(t *testing.T) {
	t.Parallel()
	h, soon := start(t, secured()), time.Now().Add(time.Hour)
	for _, name := range []string{"scout", "reader"} {
		h.gateway.bound["client "+name] = federation.BoundName{DID: ada}
	}
	scout, reader, nobody := h.mint(t, "scout", federation.OperateScope, soon), h.mint(t, "reader", federation.ReadScope, soon), h.mint(t, "nobody", federation.AdminScope, soon)
	for name, tt := range map[string]struct{ line, answer string }{
		"its own":             {loginByToken("", "scout", scout), "* 903 *"},
		"as its own name":     {loginByToken("scout", "scout", scout), "* 903 *"},
		"as its DID":          {loginByToken(string(ada), "scout", scout), "* 903 *"},
		"as somebody else":    {loginByToken("eve", "scout", scout), "* 904 *scout stands for " + string(ada)},
		"another name":        {loginByToken("", "reader", scout), "* 904 *has another name"},
		"no token":            {loginByToken("", "scout", "guess"), "* 904 *the account or the password is wrong"},
		"one of less scope":   {loginByToken("", "reader", reader), "* 904 *the token has scope read, and this needs operate"},
		"one bound to nobody": {loginByToken("", "nobody", nobody), "* 904 *no DID is bound to the token nobody"},
		"something else":      {"AUTHENTICATE !", "* 904 *the answer is no name and password in base64"},
		"half of it":          {"AUTHENTICATE c2NvdXQ=", "* 904 *the answer is no name and password in base64"},
	} {
		for _, p := range []*peer{h.overTLS(t), dial(t, h.addr)} { // loopback is as good
			p.say(t, "AUTHENTICATE PLAIN")
			p.until(t, "AUTHENTICATE +")
			p.say(t, tt.line)
			if got := p.until(t, "*SASL authentication*"); !matches(tt.answer, got) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	if err := h.record.RevokeToken(t.Context(), "scout"); err != nil {
		t.Fatal(err)
	}
	late := dial(t, h.addr)
	late.say(t, "AUTHENTICATE PLAIN", loginByToken("", "scout", scout))
	late.until(t, "* 904 *the account or the password is wrong")
}

// far is a connection from another machine.
type far struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 50000} }

func TestTokenNeedsTLS(t *testing.T) {
	t.Parallel()
	h := start(t, secured())
	here, there := net.Pipe()
	h.link.Attach(t.Context(), far{there})
	p := &peer{conn: here, lines: bufio.NewReader(here)}
	p.say(t, "CAP LS 302")
	p.until(t, "*sasl=ATPROTO-CHALLENGE,SCRAM-SHA-256 *")
	p.say(t, "AUTHENTICATE PLAIN")
	p.until(t, "* 908 * ATPROTO-CHALLENGE,SCRAM-SHA-256 :are available SASL mechanisms")
	p.until(t, "* 904 *")
	_ = here.Close()
}

func TestTLSListenerRefusesOtherProtocols(t *testing.T) {
	t.Parallel()
	h := start(t, secured())
	p, err := h.dialTLS(t, &tls.Config{NextProtos: []string{"irc"}})
	if err != nil {
		t.Fatal(err)
	}
	p.register(t, "ada", "")
	if _, err := h.dialTLS(t, &tls.Config{NextProtos: []string{"http/1.1"}}); err == nil {
		t.Error("a client of HTTP comes in")
	}
	if _, err := h.dialTLS(t, &tls.Config{MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// halfOpen connects a client that begins no handshake.
func (h *house) halfOpen(t *testing.T) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", h.link.Describe().Negotiated["tls_listen"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// awaitEnd waits until a connection is closed.
func awaitEnd(conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, conn)
	return err
}

func TestTLSHandshakeTimesOut(t *testing.T) {
	t.Parallel()
	cfg := secured()
	cfg.RegistrationTimeout = time.Second
	if err := awaitEnd(start(t, cfg).halfOpen(t)); err != nil {
		t.Error(err)
	}
}

func TestTLSHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	const many, taken = 500, 256
	h := start(t, secured(), within(bridge.Limits{UnregisteredConnections: taken}))
	friend := h.overTLS(t)
	friend.register(t, "friend", "")
	closed := make(chan error, many)
	for range many {
		conn := h.halfOpen(t)
		go func() { closed <- awaitEnd(conn) }()
	}
	for range many - taken {
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	}
	friend.say(t, "PING still")
	friend.until(t, "*PONG*still")
	select {
	case <-closed:
		t.Errorf("more than %d of %d are turned away", many-taken, many)
	default:
	}
	h.overTLS(t).register(t, "late", "")
}

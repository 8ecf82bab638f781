package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

const (
	peerTimeout   = 30 * time.Second // the other side may query directories first
	peerIdle      = 90 * time.Second
	peerMaxAnswer = 4 << 20 // bytes
	peerConns     = 4       // idle, per host
)

// PeerClient sends requests to configured hosts, with the guard of a [Client] and persistent
// connections.
type PeerClient struct{ http *http.Client }

// NewPeerClient returns a client that follows no redirects, because a message is only for the addressed
// host.
func NewPeerClient(cfg FetchConfig) *PeerClient {
	return &PeerClient{&http.Client{
		Timeout:       peerTimeout,
		Transport:     NewTransport(cfg),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// NewTransport returns a transport with the guard of a [Client], persistent connections, and without a
// requirement for HTTPS.
func NewTransport(cfg FetchConfig) *http.Transport {
	return &http.Transport{
		DialContext: newGuard(cfg).dialer(nil).DialContext, TLSClientConfig: cfg.TLS, MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost: peerConns, IdleConnTimeout: peerIdle, ForceAttemptHTTP2: true,
	}
}

// Do sends JSON, or requests a document if the body is nil, and returns a response with status 200. For
// any other status, the error wraps [*federation.UnavailableError], because an upgrade of the host may
// change the status.
func (c *PeerClient) Do(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, http.Header, error) {
	content, answered, _, err := c.do(ctx, method, address, body, header)
	return content, answered, err
}

// Look requests a document like Do. It also returns the TLS state, which may be nil.
func (c *PeerClient) Look(ctx context.Context, address string) ([]byte, http.Header, *tls.ConnectionState, error) {
	return c.do(ctx, http.MethodGet, address, nil, nil)
}

func (c *PeerClient) do(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, http.Header, *tls.ConnectionState, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask %s: %w", address, err)
	}
	if header != nil {
		request.Header = header
	}
	request.Header.Set("Content-Type", "application/json")
	host := request.URL.Host
	response, err := c.http.Do(request)
	if _, uncertified := errors.AsType[*tls.CertificateVerificationError](err); uncertified {
		return nil, nil, nil, unavailable(host, 0, fmt.Errorf("%w; for a private authority, set ca_file in its [[peers]]", err))
	}
	if err != nil {
		return nil, nil, nil, unavailable(host, 0, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, peerMaxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, nil, unavailable(host, 0, err)
	case response.StatusCode != http.StatusOK:
		return nil, nil, nil, unavailable(host, RetryAfter(response.Header), statusError(response.StatusCode))
	case len(content) > peerMaxAnswer:
		return nil, nil, nil, unavailable(host, 0, ErrTooLarge)
	}
	return content, response.Header, response.TLS, nil
}

// The error wraps [federation.ErrNotFound] if there is no document.
func statusError(status int) error {
	if status == http.StatusNotFound || status == http.StatusGone {
		return fmt.Errorf("status %d: %w", status, federation.ErrNotFound)
	}
	return fmt.Errorf("status %d", status)
}

// Close ends the idle connections.
func (c *PeerClient) Close() { c.http.CloseIdleConnections() }

// spec: freeq-signing "Key lookup across servers"
const signingKeysPath federation.URLPath = "/api/v1/signing-keys"

// A fetched key counts only for steps through the same link, so that a server cannot represent users of
// other servers. A nil error means that the response is recorded, or there is no server.
//
// spec: freeq-signing "Key lookup across servers"
func (s *KeySource) askPeer(ctx context.Context, q federation.KeyQuery, document federation.Document, now time.Time) error {
	address, ok := s.peer(q.Link)
	own := document.DID != "" && document.Source == "" && q.DID.Method() == "web"
	if !ok || own || s.cfg.Ours != nil && s.cfg.Ours(ctx, q.DID) {
		return nil // this gateway has these keys
	}
	if s.offline {
		return notAtHand(q.DID)
	}
	path := strings.ReplaceAll(string(signingKeysPath.Join(string(q.DID), q.KeyID)), ":", "%3A") // freeq servers escape colons too
	asked, err := federation.JoinURL(address, federation.URLPath(path), nil)
	if err != nil {
		return err
	}
	body, err := s.fetcher.Get(ctx, asked)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := parsePeerKey(body, q.KeyID)
	if err != nil {
		return fmt.Errorf("read key from %s: %w", address, err)
	}
	return s.Learn(ctx, federation.KeyReport{
		DID: q.DID, Origin: federation.PeerKey, Via: q.Link, At: now, Keys: []federation.ReportedKey{{Public: key}},
	})
}

func (s *KeySource) peer(link string) (string, bool) {
	if s.cfg.Peer == nil {
		return "", false
	}
	return s.cfg.Peer(link)
}

func parsePeerKey(body []byte, keyID string) (ed25519.PublicKey, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &members); err != nil {
		return nil, err
	}
	encoded := text(members["public_key"])
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != encoded {
		return nil, errors.New("public_key is not base64url")
	}
	key, err := federation.ParsePublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("read public_key: %w", err)
	}
	if federation.KeyID(key) != keyID {
		return nil, fmt.Errorf("it is key %s", federation.KeyID(key))
	}
	return key, nil
}

// MailboxDocuments reads mailbox homes from published documents.
type MailboxDocuments struct {
	Directory func() *Directory
	Client    *Client // for untrusted addresses
}

// MailboxURL returns the address of the mailbox home in a DID document, or "". It blocks on the
// network.
func (d MailboxDocuments) MailboxURL(ctx context.Context, did federation.DID) (string, error) {
	document, err := d.Directory().Resolve(ctx, did, time.Now())
	if err != nil {
		return "", err
	}
	return document.Mailbox, nil
}

// HostHome returns the home in a host's well-known document, or "". It blocks on the network.
func (d MailboxDocuments) HostHome(ctx context.Context, host string) (federation.HomeID, error) {
	address, err := federation.JoinURL(federation.BaseURL(host), federation.ProfilePath, nil)
	if err != nil {
		return "", err
	}
	text, err := d.Client.Get(ctx, address)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	profile, err := federation.ParseHomeProfile(text)
	return profile.Home, err
}

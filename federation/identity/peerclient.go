package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"baton/federation"
)

// Bounds of the connections to other homes.
const (
	peerTimeout   = 30 * time.Second // of one exchange: the other side may have to ask directories first
	peerIdle      = 90 * time.Second
	peerMaxAnswer = 4 << 20 // bytes
	peerConns     = 4       // idle ones a host
)

// PeerClient calls hosts that the operator named. It has the guard of a [Client], and keeps its
// connections open.
type PeerClient struct{ http *http.Client }

// NewPeerClient returns a client. It follows no redirect: a message is for the host that it was addressed
// to.
func NewPeerClient(cfg FetchConfig) *PeerClient {
	dialer := newGuard(cfg).dialer(nil)
	return &PeerClient{&http.Client{
		Timeout: peerTimeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: cfg.TLS, MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost: peerConns, IdleConnTimeout: peerIdle, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do sends JSON, or with a nil body requests a document, and returns the answer with status 200. For any
// other status the error wraps [*federation.UnavailableError]: an upgrade of the host may change it.
func (c *PeerClient) Do(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, http.Header, error) {
	content, answered, _, err := c.do(ctx, method, address, body, header)
	return content, answered, err
}

// Look requests a document as Do does, and also returns the header and the TLS state, nil for none.
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
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16) // 0 where it did not say
		return nil, nil, nil, unavailable(host, time.Duration(seconds)*time.Second, statusError(response.StatusCode))
	case len(content) > peerMaxAnswer:
		return nil, nil, nil, unavailable(host, 0, ErrTooLarge)
	}
	return content, response.Header, response.TLS, nil
}

// statusError returns the error for a status other than 200. It wraps [federation.ErrNotFound]
// where the host answers that there is no document.
func statusError(status int) error {
	if status == http.StatusNotFound || status == http.StatusGone {
		return fmt.Errorf("status %d: %w", status, federation.ErrNotFound)
	}
	return fmt.Errorf("status %d", status)
}

// Close ends the connections that are idle.
func (c *PeerClient) Close() { c.http.CloseIdleConnections() }

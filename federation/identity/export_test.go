package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"

	"github.com/baton-gateway/baton/federation"
)

// The bounds, for the tests of this package.
const (
	MaxDocuments = maxDocuments
	MaxHosts     = maxHosts
	AwayFor      = awayFor

	KeyWait        = keyWait
	LookupsPerUser = lookupsPerUser
	LookupsPerHost = lookupsPerHost
	LookupsTotal   = lookupsTotal
	LoginsPerHost  = loginsPerHost
)

func Remembered(d *Directory) int { return d.answers.known.EstimatedSize() }

// HostsAfter returns how many hosts a client remembers after asking for a turn at
// these.
func HostsAfter(c *Client, hosts ...string) int {
	for _, host := range hosts {
		c.rates.of(host).Allow()
	}
	return len(c.rates.hosts)
}

// Trust has a client believe the certificates of a test server.
func Trust(c *Client, pool *x509.CertPool) {
	c.transport().TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// ResolveWith makes a client look names up at a test server for DNS.
func ResolveWith(c *Client, address string) {
	c.dial.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// Publish makes a client find one host and port at a test server, as if that were in public. All
// other addresses are guarded as always.
func Publish(c *Client, hostPort, at string) {
	c.transport().DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == hostPort {
			return new(net.Dialer).DialContext(ctx, network, at)
		}
		return c.dial.DialContext(ctx, network, address)
	}
}

func (c *Client) transport() *http.Transport { return c.http.Transport.(*http.Transport) }

// ParseWholeDocument is ParseDocument, with keys of other kinds and skipped keys.
func ParseWholeDocument(did federation.DID, body []byte) (federation.Document, error) {
	return parseDocument(did, body)
}

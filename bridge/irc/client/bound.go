package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"baton/federation"
)

// certified reports whether a client may show a certificate: over TLS that ends here.
func (u *user) certified() bool {
	s, ok := u.wire.(*stream)
	if ok {
		_, ok = s.conn.(*tls.Conn)
	}
	return ok
}

// fingerprint returns the SHA-256 of a client's certificate in lower-case hexadecimal
// digits, "" where there is none.
func fingerprint(w wire) string {
	stream, ok := w.(*stream)
	if !ok {
		return ""
	}
	secured, ok := stream.conn.(*tls.Conn)
	if !ok || len(secured.ConnectionState().PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(secured.ConnectionState().PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

// byCertificate returns the DID that the operator bound to the certificate of a
// connection, and the certificate's fingerprint.
func (s *server) byCertificate(ctx context.Context, w wire) (federation.DID, string, error) {
	name := fingerprint(w)
	if name == "" {
		return "", "", loginError("the connection has no certificate")
	}
	return s.boundTo(ctx, name, "no DID is bound to the certificate "+name)
}

// byToken returns the DID that the operator bound to the name of a token, and that name. A
// client that reads an inbox changes deliveries, for which the token needs the scope.
//
// spec: RFC 4616
func (s *server) byToken(ctx context.Context, answer string) (federation.DID, string, error) {
	raw, err := base64.StdEncoding.DecodeString(answer)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != 3 {
		return "", "", loginError("the answer is no name and token in base64")
	}
	as, name, text := parts[0], parts[1], parts[2]
	token, err := s.link.deps.Record.Token(ctx, federation.DigestToken(text), time.Now())
	switch {
	case errors.Is(err, federation.ErrNotFound) || err == nil && token.Name != name:
		return "", "", loginError("the token is unknown, revoked or over, or has another name")
	case err != nil:
		return "", "", err
	case !token.Scope.Covers(federation.OperateScope):
		return "", "", loginError("the token has scope " + string(token.Scope) + ", and this needs " + string(federation.OperateScope))
	}
	did, _, err := s.boundTo(ctx, name, "no DID is bound to the token "+name)
	if err == nil && as != "" && as != name && as != string(did) {
		err = loginError("the token stands for " + string(did))
	}
	return did, name, err
}

// boundTo returns the DID that the operator bound to a name of this network.
func (s *server) boundTo(ctx context.Context, name, why string) (federation.DID, string, error) {
	bound, err := s.link.ports.Bindings.Bound(ctx, s.link.Name(), name)
	if errors.Is(err, federation.ErrNotFound) {
		return "", "", loginError(why)
	}
	return bound.DID, name, err
}

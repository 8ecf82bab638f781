package airc

import (
	"cmp"
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/bridge/credential"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// unprovenPerMinute is how many unsigned relays one address may send, and how many look-ups
// it may cause for the keys of registries that no operator named. Deployed registries take
// as many relays from one other registry.
const unprovenPerMinute = 10

// unproven meters by address what no operator answers for: callers that did not prove which
// registry they are, and registries that no operator named. An unsigned relay never counts in the
// rate of the registry that it names.
type unproven struct {
	relays  credential.Addresses // unsigned ones
	vouched credential.Addresses // unsigned ones of a registry whose unsigned relays the operator allows
	keys    credential.Addresses // look-ups of the keys of registries that no operator named
	unnamed credential.Addresses // signed relays of all those registries together
	lookups credential.Addresses // of identities and presence at other registries
}

func newUnproven() unproven {
	return unproven{
		relays:  credential.NewAddresses(func() int { return unprovenPerMinute }, time.Minute),
		vouched: credential.NewAddresses(func() int { return defaultPerMinute }, time.Minute),
		keys:    credential.NewAddresses(func() int { return unprovenPerMinute }, time.Minute),
		unnamed: credential.NewAddresses(func() int { return defaultPerMinute }, time.Minute),
		lookups: credential.NewAddresses(func() int { return lookupsPerMinute }, time.Minute),
	}
}

// charge counts one unsigned relay from an address. Relays vouched for by the operator have a
// higher limit.
func (u unproven) charge(cfg PeerConfig, vouched bool, from netip.Prefix, now time.Time) error {
	meter, perMinute := u.relays, unprovenPerMinute
	if vouched && cfg.Mode != ModeLimit {
		meter, perMinute = u.vouched, defaultPerMinute
	}
	return take(meter, perMinute, from, now)
}

// take counts one request of an address and refuses one that is too many.
func take(meter credential.Addresses, perMinute int, from netip.Prefix, now time.Time) error {
	if !meter.Take(from, now) {
		return tooMany(time.Minute / time.Duration(perMinute))
	}
	return nil
}

// vouched reports whether the operator trusts an unsigned relay: it must come from the registry's
// networks or with its certificate. Mutual TLS was checked before.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) vouched(r *http.Request, p PeerConfig) bool {
	proved := len(p.Networks) > 0 || p.ClientCA != "" || l.cfg.MTLS.CAFile != ""
	return p.Unsigned == ModeAllow && p.Mode != ModeHold && proved && p.within(r) && (p.ClientCA == "" || l.certified(r, p.ClientCA, p.Domain))
}

// admitOrigin refuses a registry that messages are not exchanged with, and a caller that
// does not show the certificate of the registry that it names.
func (l *Link) admitOrigin(r *http.Request, origin string) (PeerConfig, error) {
	cfg, federated := l.peerConfig(origin)
	if !federated {
		return cfg, errBlocked()
	}
	return cfg, l.checkCertified(r, origin)
}

// admitRelay finds out how sure the origin of a relay is, and refuses one that is too many
// or that contradicts itself.
func (l *Link) admitRelay(c *call, o *object, m *relayed, now time.Time) error {
	cfg, err := l.admitOrigin(c.Request, m.origin)
	if err != nil {
		return err
	}
	if o.first(signatureMember) != "" {
		return l.admitSigned(c, o, m, cfg, now)
	}
	vouched, err := l.admitUnsigned(c.Request, cfg, now)
	if err != nil {
		return err
	}
	m.assurance = assuranceUnverified
	if vouched {
		m.assurance = assuranceVouched
	}
	if _, err := l.checkEnvelope(*m); err != nil {
		return err
	}
	if l.configured(m.origin) {
		return nil
	}
	_, err = l.askIdentity(c.Context(), m.origin, m.from, now) // no operator named this registry: it must have the sender
	return err
}

// admitUnsigned counts an unsigned relay, and reports whether the operator trusts it.
func (l *Link) admitUnsigned(r *http.Request, cfg PeerConfig, now time.Time) (vouched bool, err error) {
	vouched = l.vouched(r, cfg)
	if err := l.unproven.charge(cfg, vouched, credential.AddressOf(r), now); err != nil {
		return vouched, err
	}
	if l.cfg.MTLS.CAFile != "" && !vouched { // a certificate does not replace a signature
		return vouched, refuse(codeInvalidRegistrySignature, "a registry must sign its relays here, in addition to its certificate")
	}
	return vouched, nil
}

// admitSigned finds out whether a registry signed a message for this registry, and how sure
// that makes its author.
func (l *Link) admitSigned(c *call, o *object, m *relayed, cfg PeerConfig, now time.Time) error {
	var err error
	if m.peer, err = l.admitMessage(c.Context(), cfg, m.raw, o.first(signatureMember), credential.AddressOf(c.Request), now); err != nil {
		return err
	}
	if err := l.checkAttempt(o, now); err != nil {
		return err
	}
	m.assurance = assuranceRegistry
	if cfg.Mode == ModeHold {
		m.assurance = assuranceUnverified // whatever the signature says, the operator wants it so
	}
	return l.verifyEnvelope(c.Context(), *m)
}

// admitMessage verifies the signature of a registry, and only then counts the message in
// the rate of that registry. A registry whose key cannot be read now is no evidence: the
// caller sends the message again.
func (l *Link) admitMessage(
	ctx context.Context, cfg PeerConfig, message []byte, signature string, from netip.Prefix, now time.Time,
) (peer, error) {
	p, err := l.verifyPeer(ctx, cfg, message, signature, from, now)
	if err == nil && !l.configured(cfg.Domain) { // the owner of one domain has any number of names below it
		err = take(l.unproven.unnamed, defaultPerMinute, from, now)
	}
	if err != nil {
		return p, err
	}
	perMinute := defaultPerMinute
	if cfg.Mode == ModeLimit {
		perMinute = limitedPerMinute
	}
	if !l.peers.limiter("from "+cfg.Domain, perMinute).AllowN(now, 1) {
		return p, tooMany(time.Minute / time.Duration(perMinute))
	}
	return p, nil
}

// verifyPeer checks the signature of a registry in a message. Without a pinned key it fetches the
// registry's key if none is known, and again if the known key does not match, because the key may
// have been replaced. Keys of the configured registries are cached, which bounds these look-ups.
// All other look-ups count against the limit of the caller's address.
func (l *Link) verifyPeer(
	ctx context.Context, cfg PeerConfig, message []byte, signature string, from netip.Prefix, now time.Time,
) (peer, error) {
	if cfg.PublicKey != "" {
		return l.verifyPinned(ctx, cfg, message, signature)
	}
	p, fresh := l.peers.remembered(cfg.Domain, now)
	if fresh && p.err == nil && p.signed(message, signature) {
		return p, nil
	}
	switch {
	case fresh && p.err != nil:
		return p, p.err
	case !fresh, now.Sub(p.fetched) > silenceLife:
		var err error
		if !l.configured(cfg.Domain) {
			err = take(l.unproven.keys, unprovenPerMinute, from, now)
		}
		if err == nil {
			p, err = l.discover(ctx, cfg, now)
		}
		if err != nil {
			return p, err
		}
	}
	if !p.signed(message, signature) {
		return p, errPeerSignature()
	}
	return p, nil
}

// verifyPinned checks the signature of a registry with its pinned key. It makes no request: the
// registry may be unreachable, or may publish no document.
func (l *Link) verifyPinned(ctx context.Context, cfg PeerConfig, message []byte, signature string) (peer, error) {
	p := peer{PeerConfig: cfg, base: cfg.URL}
	var err error
	if p.key, err = parsePublicKey(cfg.PublicKey); err != nil {
		return p, err
	}
	if !p.signed(message, signature) {
		return p, errPeerSignature()
	}
	return p, l.checkDNS(ctx, p)
}

func errPeerSignature() error {
	return refuse(codeInvalidRegistrySignature, "the signature of the registry does not match its key")
}

// checkAttempt binds a signed relay to this registry and to now: another registry that
// read it could send it on.
func (l *Link) checkAttempt(o *object, now time.Time) error {
	to, bound := parseAddress(cmp.Or(o.first("to_address"), o.first("to")))
	switch {
	case !bound || to.domain != l.domain:
		return refuse(codeAudienceMismatch, "a signed relay names its recipient with the domain of this registry")
	case now.Sub(o.time("timestamp")).Abs() > clockSkew:
		return refuse(codeInvalidTimestamp, "timestamp is more than 300 seconds from the clock here")
	}
	return nil
}

// checkEnvelope refuses a relay whose agent signed another message, or the message for
// another agent. It returns nil for a relay without an envelope. The audience of the
// envelope is the registry of its agent.
func (l *Link) checkEnvelope(m relayed) (*envelope, error) {
	if m.envelope == nil {
		return nil, nil //nolint:nilnil // deployed registries send none
	}
	e, err := parseEnvelope(m.envelope, false)
	if err != nil {
		return nil, err
	}
	switch to := strings.TrimPrefix(e.to, "@"); {
	case e.from != m.from || e.aud != m.origin || e.body != "" && e.body != m.body || !sameJSON(e.payload, m.payload):
		return nil, refuse(codeBadRequest, "the envelope is of another message")
	case to != m.to && to != (remote{m.to, l.domain}).String():
		return nil, refuse(codeBadRequest, "the envelope is for another recipient")
	}
	return &e, nil
}

// verifyEnvelope checks the signature of an agent in a relay. Where its registry does not
// tell the agent's key now, the signature of the registry suffices: the registry vouches.
func (l *Link) verifyEnvelope(ctx context.Context, m relayed) error {
	e, err := l.checkEnvelope(m)
	if err != nil || e == nil {
		return err
	}
	keys, err := l.agentKeys(ctx, m.peer, m.from)
	i := slices.IndexFunc(keys, func(key agents.Key) bool { return key.ID == e.kid })
	if err != nil || i < 0 {
		return nil //nolint:nilerr // not told now; or signed by the registry for the agent, or by a key that has ended
	}
	verdict, err := signing.VerifyEnvelope(e.raw, e.signature, keys[i].Public)
	if err != nil || verdict != federation.Valid {
		return refuse(codeInvalidSignature, "the agent's signature does not match its envelope")
	}
	return nil
}

// MTLSConfig is the table [airc.mtls]: the authorities that certify registries. The HTTP
// listener and the HTTP client of the gateway check the certificates.
type MTLSConfig struct {
	CAFile string `toml:"ca_file"` // empty where registries show each other no certificates
}

// checkCertified rejects a request from a registry unless its client presented a valid certificate
// for the registry's domain.
//
// spec: airc-v0.1.1 §11.4
func (l *Link) checkCertified(r *http.Request, domain string) error {
	if l.cfg.MTLS.CAFile == "" || l.certified(r, l.cfg.MTLS.CAFile, domain) {
		return nil
	}
	return refuse(codeFederationBlocked, "a registry must present a client certificate for its domain here, which "+domain+" did not")
}

// certified reports whether a client presented a certificate for a domain, issued by one of the
// authorities in a file.
func (l *Link) certified(r *http.Request, file, domain string) bool {
	roots := l.deps.Authorities[file]
	if roots == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: domain, Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

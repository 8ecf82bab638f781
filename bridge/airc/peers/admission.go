package peers

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
)

// The rate of one address. Deployed registries accept as many relays from one registry.
const unprovenPerMinute = 10

// unproven rate-limits, by address, callers that no operator vouches for.
type unproven struct {
	relays  credential.Addresses // unsigned relays
	vouched credential.Addresses // unsigned relays of a registry from which the operator allows them
	keys    credential.Addresses // key lookups at unconfigured registries
	unnamed credential.Addresses // signed relays of all unconfigured registries together
	lookups credential.Addresses // lookups of identities and presence
}

func newUnproven() unproven {
	return unproven{
		relays:  credential.NewAddresses(func() int { return unprovenPerMinute }, time.Minute),
		vouched: credential.NewAddresses(func() int { return DefaultPerMinute }, time.Minute),
		keys:    credential.NewAddresses(func() int { return unprovenPerMinute }, time.Minute),
		unnamed: credential.NewAddresses(func() int { return DefaultPerMinute }, time.Minute),
		lookups: credential.NewAddresses(func() int { return lookupsPerMinute }, time.Minute),
	}
}

func acquire(meter credential.Addresses, perMinute int, from netip.Prefix, now time.Time) error {
	if !meter.Take(from, now) {
		return wire.TooMany(time.Minute / time.Duration(perMinute))
	}
	return nil
}

// AdmitOrigin refuses a registry without an exchange of messages, and a caller without the required
// certificate of the registry that it names.
//
// spec: airc-v0.1.1 §11.4
func (ps *Registries) AdmitOrigin(r *http.Request, origin string) (Config, error) {
	cfg, federated := ps.Exchanges(origin)
	if !federated {
		return cfg, ErrBlocked()
	}
	if authorities := ps.deps.CAFile; authorities != "" && !ps.certified(r, authorities, origin) {
		return cfg, wire.Refuse(wire.CodeFederationBlocked, "a registry must present a client certificate for its domain here, which "+origin+" did not")
	}
	return cfg, nil
}

// AdmitUnsigned counts an unsigned relay against the rate of its address, and reports whether the
// operator trusts it. A trusted relay comes from the registry's networks or uses its certificate, and
// has a higher limit. AdmitOrigin must have checked mutual TLS.
//
// spec: airc-shapes "Sessions and proofs"
func (ps *Registries) AdmitUnsigned(r *http.Request, cfg Config, now time.Time) (vouched bool, err error) {
	proved := len(cfg.Networks) > 0 || cfg.ClientCA != "" || ps.deps.CAFile != ""
	vouched = cfg.Unsigned == ModeAllow && cfg.Mode != ModeHold && proved && cfg.within(r) &&
		(cfg.ClientCA == "" || ps.certified(r, cfg.ClientCA, cfg.Domain))
	meter, perMinute := ps.unproven.relays, unprovenPerMinute
	if vouched && cfg.Mode != ModeLimit {
		meter, perMinute = ps.unproven.vouched, DefaultPerMinute
	}
	if err := acquire(meter, perMinute, credential.AddressOf(r), now); err != nil {
		return vouched, err
	}
	if ps.deps.CAFile != "" && !vouched { // a certificate does not replace a signature
		return vouched, wire.Refuse(wire.CodeInvalidRegistrySignature, "a registry must sign its relays here, in addition to its certificate")
	}
	return vouched, nil
}

// AdmitSigned verifies the signature of a registry, and then counts the message in its rate. If the key
// cannot be read now, the caller must retry.
func (ps *Registries) AdmitSigned(
	ctx context.Context, cfg Config, message []byte, signature string, from netip.Prefix, now time.Time,
) (Peer, error) {
	p, err := ps.verifyPeer(ctx, cfg, message, signature, from, now)
	if err == nil && !ps.Configured(cfg.Domain) { // the owner of a domain can create any number of subdomains
		err = acquire(ps.unproven.unnamed, DefaultPerMinute, from, now)
	}
	if err != nil {
		return p, err
	}
	perMinute := DefaultPerMinute
	if cfg.Mode == ModeLimit {
		perMinute = limitedPerMinute
	}
	if !ps.limiter("from "+cfg.Domain, perMinute).AllowN(now, 1) {
		return p, wire.TooMany(time.Minute / time.Duration(perMinute))
	}
	return p, nil
}

// verifyPeer fetches the key again if the known one does not match, because it may have been replaced.
// Lookups at unconfigured registries count against the limit of the caller's address.
func (ps *Registries) verifyPeer(
	ctx context.Context, cfg Config, message []byte, signature string, from netip.Prefix, now time.Time,
) (Peer, error) {
	if cfg.PublicKey != "" {
		return ps.verifyPinned(ctx, cfg, message, signature)
	}
	p, fresh := ps.remembered(cfg.Domain, now)
	if fresh && p.err == nil && p.signed(message, signature) {
		return p, nil
	}
	switch {
	case fresh && p.err != nil:
		return p, p.err
	case !fresh, now.Sub(p.fetched) > silenceLife:
		var err error
		if !ps.Configured(cfg.Domain) {
			err = acquire(ps.unproven.keys, unprovenPerMinute, from, now)
		}
		if err == nil {
			p, err = ps.discover(ctx, cfg, now)
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

// verifyPinned makes no request: the registry may be unreachable, or may publish no document.
func (ps *Registries) verifyPinned(ctx context.Context, cfg Config, message []byte, signature string) (Peer, error) {
	p := Peer{Config: cfg, base: cfg.URL}
	var err error
	if p.key, err = wire.ParsePublicKey(cfg.PublicKey); err != nil {
		return p, err
	}
	if !p.signed(message, signature) {
		return p, errPeerSignature()
	}
	return p, ps.checkDNS(ctx, p)
}

func errPeerSignature() error {
	return wire.Refuse(wire.CodeInvalidRegistrySignature, "the signature of the registry does not match its key")
}

// MTLSConfig is the table [airc.mtls]: the authorities that certify registries. The gateway's HTTP
// listener and HTTP client check the certificates.
type MTLSConfig struct {
	CAFile string `toml:"ca_file"` // "" if registries do not use certificates
}

func (ps *Registries) certified(r *http.Request, file, domain string) bool {
	roots := ps.deps.Authorities[file]
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

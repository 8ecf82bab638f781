package peering

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
)

// inspectTimeout bounds the inspection of a home.
const inspectTimeout = 10 * time.Second

// certificateEnds is the remaining time of a certificate below which an operator is warned.
const certificateEnds = 14 * 24 * time.Hour

// documentPath is the path of the DID document of a home.
const documentPath federation.URLPath = "/.well-known/did.json"

// Inspection is what a home published, with a finding for each check.
type Inspection struct {
	Home     federation.KnownHome // as the record would keep it
	Findings []federation.Finding
}

// Failed returns the first check that failed, and whether there is one.
func (i Inspection) Failed() (federation.Finding, bool) {
	n := slices.IndexFunc(i.Findings, func(f federation.Finding) bool { return f.State == federation.FindingFail })
	if n < 0 {
		return federation.Finding{}, false
	}
	return i.Findings[n], true
}

// Inspect fetches what a home publishes and checks it: name, tls, did (the signature), clock,
// versions, limits, path. It blocks for at most ten seconds. A failed check is no error; a
// [*RequestError] says why the profile cannot be read.
func (p *Peering) Inspect(ctx context.Context, ask Request) (Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	fetch := p.cfg.Fetch
	fetch.AllowPrivate = ask.AllowPrivate
	client := identity.NewPeerClient(fetch)
	defer client.Close()
	address, err := federation.JoinURL(ask.URL, federation.ProfilePath, nil)
	if err != nil {
		return Inspection{}, &RequestError{Malformed, "url: " + err.Error()}
	}
	asked := time.Now()
	text, header, secured, err := client.Look(ctx, address)
	if errors.Is(err, identity.ErrPrivate) && !ask.AllowPrivate {
		return Inspection{}, &RequestError{Malformed, "url: " + ask.URL + " is a private address: in a closed network, say --allow-private, with fetch.allow_private = true in the configuration"}
	}
	if err != nil {
		return Inspection{}, &RequestError{Unreachable, "read " + string(federation.ProfilePath) + ": " + err.Error()}
	}
	heard := time.Now()
	profile, err := federation.ParseHomeProfile(text)
	if err != nil {
		return Inspection{}, &RequestError{Unreadable, "read " + string(federation.ProfilePath) + ": " + err.Error()}
	}
	return Inspection{
		Home: federation.KnownHome{Home: profile.Home, URL: ask.URL, Path: p.cfg.Path, Since: heard},
		Findings: []federation.Finding{
			p.checkName(profile.Home, ask.URL),
			checkTLS(secured, heard),
			checkSignature(ctx, client, ask.URL, profile, signed{text, header.Get(federation.SignatureHeader), heard}),
			checkClock(profile.Sent, asked, heard, p.cfg.ClockSkew()),
			checkVersions(profile),
			checkLimits(profile.Limits, p.cfg.Batch),
			{What: "path", State: federation.FindingOK, Detail: p.cfg.Path},
		},
	}, nil
}

// checkName checks that no other link has the name of the home. It warns where the name is not the
// host of the address: then no certificate proves the name.
func (p *Peering) checkName(home federation.HomeID, address string) federation.Finding {
	f := federation.Finding{What: "name", State: federation.FindingOK, Detail: string(home)}
	link, taken := p.cfg.Links.Link(string(home))
	switch {
	case home == p.cfg.Home:
		f.State, f.Detail = federation.FindingFail, f.Detail+" is this gateway's own name"
		return f
	case taken && !link.Home:
		f.State, f.Detail = federation.FindingFail, f.Detail+" is the name of another link"
		return f
	case taken && (!link.Added || link.URL != address):
		f.State, f.Detail = federation.FindingFail, f.Detail+" is a peer already, at "+link.URL
		return f
	case taken:
		f.Detail += ", which is known already: a canary is sent again"
	}
	if u, err := url.Parse(address); err == nil && u.Hostname() != string(home) {
		f.State, f.Detail = federation.FindingWarn, f.Detail+", which is not the host of its address: compare the name with its operator"
	}
	return f
}

// checkTLS checks the connection that the profile came over.
func checkTLS(state *tls.ConnectionState, now time.Time) federation.Finding {
	f := federation.Finding{What: "tls", State: federation.FindingOK}
	if state == nil {
		f.State, f.Detail = federation.FindingWarn, "none: the network between can read all steps, and cannot change them: they are signed"
		return f
	}
	ends := state.PeerCertificates[0].NotAfter
	f.Detail = tls.VersionName(state.Version) + ", certificate good until " + ends.UTC().Format(time.DateOnly)
	if ends.Sub(now) < certificateEnds {
		f.State = federation.FindingWarn
	}
	return f
}

// signed is a profile as it was received.
type signed struct {
	text      []byte
	signature string
	received  time.Time
}

// checkSignature checks that the home signed its profile with a key of its DID document.
func checkSignature(ctx context.Context, client *identity.PeerClient, address string, profile federation.HomeProfile, s signed) federation.Finding {
	keys, err := homeKeys(ctx, client, address, profile.DID)
	if err == nil {
		_, err = signing.VerifyHome(ctx, keys, profile.Home, s.text, s.signature, s.received)
	}
	if err != nil {
		return federation.Finding{What: "did", State: federation.FindingFail, Detail: err.Error()}
	}
	return federation.Finding{What: "did", State: federation.FindingOK, Detail: string(profile.DID) + " has signed this with " + federation.KeyID(keys[0])}
}

// checkClock compares the clocks. The profile was sent between the two moments.
func checkClock(sent, asked, heard time.Time, most time.Duration) federation.Finding {
	f := federation.Finding{What: "clock", State: federation.FindingOK, Detail: "as here"}
	switch slip := max(asked.Sub(sent), sent.Sub(heard), 0); {
	case slip > most:
		f.State, f.Detail = federation.FindingFail, fmt.Sprintf("%s apart; more than %s is refused", slip.Round(time.Second), most)
	case slip > time.Second:
		f.State, f.Detail = federation.FindingWarn, slip.Round(time.Second).String()+" apart"
	}
	return f
}

// checkVersions checks that both homes speak one version.
func checkVersions(profile federation.HomeProfile) federation.Finding {
	f := federation.Finding{What: "versions", State: federation.FindingOK, Detail: fmt.Sprint(federation.HomeProtocol)}
	if !profile.Speaks() {
		f.State, f.Detail = federation.FindingFail, fmt.Sprintf("it speaks %d, and this home %d", profile.Versions, federation.HomeProtocol)
	}
	return f
}

// checkLimits checks that the home takes the largest batch of this home.
func checkLimits(takes, sent federation.HomeLimits) federation.Finding {
	f := federation.Finding{What: "limits", State: federation.FindingOK, Detail: fmt.Sprintf("%d steps and %d bytes at once", takes.Steps, takes.Bytes)}
	if takes.Steps < sent.Steps || takes.Bytes < sent.Bytes {
		f.State = federation.FindingFail
		f.Detail = fmt.Sprintf("it takes %d steps and %d bytes at once; this home sends up to %d and %d", takes.Steps, takes.Bytes, sent.Steps, sent.Bytes)
	}
	return f
}

// documentKeys are the keys of a DID document. They implement [federation.KeySource].
type documentKeys []ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k documentKeys) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return k, nil
}

// KeyOwner implements [federation.KeySource].
func (documentKeys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// homeKeys reads the keys of a home from the DID document at its address: the keys that this
// gateway holds may be older.
func homeKeys(ctx context.Context, client *identity.PeerClient, address string, did federation.DID) (documentKeys, error) {
	documentAt, err := federation.JoinURL(address, documentPath, nil)
	if err != nil {
		return nil, err
	}
	text, _, err := client.Do(ctx, http.MethodGet, documentAt, nil, nil)
	if err != nil {
		return nil, err
	}
	keys, err := identity.ParseDocument(did, text)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("the document of %s has no key", did)
	}
	return keys, err
}

// Package peering adds other homes to a running gateway, and removes them.
//
// [Peering.Add] inspects a home, and records and links it if all checks pass. Then a [Canary] shows
// whether handoffs work. [Peering.Run] synchronizes the linked homes with the recorded homes, which
// the replicas of a home share. Methods may be called concurrently.
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

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// Record stores the homes added by operators. Its methods block until the change is on disk.
type Record interface {
	// KeepHome stores a home, replacing its previous entry.
	KeepHome(ctx context.Context, h federation.KnownHome) error
	// ForgetHome removes a home. It returns [federation.ErrNotFound] for an unknown one.
	ForgetHome(ctx context.Context, home federation.HomeID) error
	// KnownHomes returns all added homes, by name.
	KnownHomes(ctx context.Context) ([]federation.KnownHome, error)
}

// Links is the set of links of the gateway. Only Relink blocks.
type Links interface {
	// Link returns the link with the given name, and whether there is one.
	Link(name string) (Link, bool)
	// Added returns the linked homes added by operators.
	Added() []federation.KnownHome
	// IsPeer reports whether a home or a registry has the name.
	IsPeer(name string) bool
	// Relink links recorded homes, and ends the links to homes that are no longer recorded, except
	// configured links. It blocks until the ended links are closed. The new links run until ctx
	// ends.
	Relink(ctx context.Context) error
	// ForgetKeys drops the cached keys of a DID.
	ForgetKeys(did federation.DID)
	// TellReplicas makes the other replicas of this home read the record again.
	TellReplicas()
}

// Link is one link of the gateway.
type Link struct {
	Home      bool // to another home
	URL       string
	Added     bool // by an operator while a gateway ran
	Up        bool
	LastError string
}

// Config configures a [Peering].
type Config struct {
	Home      federation.HomeID
	Path      string                // to added homes: relay or https
	Batch     federation.HomeLimits // the largest batch that this home sends
	ClockSkew func() time.Duration  // tolerated for another home
	// Fetch limits the addresses. Private ones also need the permission of the request.
	Fetch  identity.FetchConfig
	Record Record
	Links  Links
	Canary *Canary
}

// Peering adds and removes other homes.
type Peering struct {
	cfg     Config
	relinks chan chan<- error
	ended   chan struct{} // closed at the end of Run
}

// New returns a peering. Its other methods wait for [Peering.Run] if they change links.
func New(cfg Config) *Peering {
	return &Peering{cfg: cfg, relinks: make(chan chan<- error), ended: make(chan struct{})}
}

// Reason is the reason for rejecting an operator's request.
type Reason string

// The reasons.
const (
	Malformed   Reason = "malformed"
	Unknown     Reason = "unknown"
	Conflict    Reason = "conflict"    // a check failed, or the configuration names the home
	Unreachable Reason = "unreachable" // the other home does not answer now
	Unreadable  Reason = "unreadable"  // the response of the other home is not a profile
)

// RequestError is returned for a rejected request.
type RequestError struct {
	Reason Reason
	Detail string // for operators
}

func (e *RequestError) Error() string { return e.Detail }

// Request is a request to add a home.
type Request struct {
	URL string // without a path
	// AllowPrivate allows a private address, or one without TLS.
	AllowPrivate bool
	// DryRun requests only the inspection.
	DryRun bool
}

// Added is an inspected home, and the canary sent to it.
type Added struct {
	Inspection

	Canary *CanaryReport // nil if none was sent
}

// Add inspects, stores and links a home, and sends it a canary. It blocks for at most about thirty
// seconds. The error is a [*RequestError], or comes from the record or the gateway.
func (p *Peering) Add(ctx context.Context, ask Request) (Added, error) {
	if err := p.checkRequest(ask); err != nil {
		return Added{}, err
	}
	found, err := p.Inspect(ctx, ask)
	added := Added{Inspection: found}
	if err != nil || ask.DryRun {
		return added, err
	}
	if failed, ok := found.Failed(); ok {
		return added, &RequestError{Conflict, failed.What + ": " + failed.Detail}
	}
	if err := p.cfg.Record.KeepHome(ctx, found.Home); err != nil {
		return added, err
	}
	p.cfg.Links.ForgetKeys(found.Home.Home.DID()) // an earlier lookup may have failed
	err = p.relink(ctx)
	p.cfg.Links.TellReplicas()
	if err != nil {
		return added, err
	}
	report, err := p.cfg.Canary.Send(ctx, found.Home.Home)
	added.Canary = &report
	return added, err
}

func (p *Peering) checkRequest(ask Request) error {
	address, err := url.Parse(ask.URL)
	switch {
	case err != nil || federation.CheckOrigin(ask.URL) != nil:
		return &RequestError{Malformed, "url: want https:// and a host, without a path, not " + ask.URL}
	case address.Scheme == "http" && !ask.AllowPrivate:
		return &RequestError{Malformed, "url: it is without TLS: in a closed network, say --allow-private, with fetch.allow_private = true in the configuration"}
	case ask.AllowPrivate && !p.cfg.Fetch.AllowPrivate:
		return &RequestError{Malformed, "--allow-private: set fetch.allow_private = true in the configuration first, and restart"}
	}
	return nil
}

// Remove deletes a home added by an operator, and ends the link to it. Pending deliveries wait for
// another route. With dry, it only looks for the home. The error is a [*RequestError], or comes
// from the record.
func (p *Peering) Remove(ctx context.Context, name string, dry bool) (federation.KnownHome, error) {
	known, err := p.cfg.Record.KnownHomes(ctx)
	if err != nil {
		return federation.KnownHome{}, err
	}
	i := slices.IndexFunc(known, func(k federation.KnownHome) bool { return string(k.Home) == name })
	switch {
	case i < 0 && p.configured(name):
		return federation.KnownHome{}, &RequestError{Conflict, name + " is in the configuration: remove it there"}
	case i < 0 && p.cfg.Links.IsPeer(name):
		return federation.KnownHome{}, &RequestError{Conflict, name + " is a registry, not a home added by an operator: use baton peer mode to limit it"}
	case i < 0:
		return federation.KnownHome{}, &RequestError{Unknown, "there is no peer " + name}
	case dry:
		return known[i], nil
	}
	if err := p.cfg.Record.ForgetHome(ctx, known[i].Home); err != nil {
		return known[i], err
	}
	defer p.cfg.Links.TellReplicas()
	return known[i], p.relink(ctx)
}

func (p *Peering) configured(name string) bool {
	link, linked := p.cfg.Links.Link(name)
	return linked && link.Home && !link.Added
}

// Run executes requests to change links, one at a time, until ctx ends. It is called once.
func (p *Peering) Run(ctx context.Context) {
	defer close(p.ended)
	for {
		select {
		case done := <-p.relinks:
			done <- p.cfg.Links.Relink(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// The links run in [Peering.Run] because they must outlive the request.
func (p *Peering) relink(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case p.relinks <- done:
		return <-done
	case <-p.ended:
		return &federation.UnavailableError{What: "gateway", Err: errors.New("it is ending")}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TakeUp applies changes made by operators at other replicas of this home.
func (p *Peering) TakeUp(ctx context.Context) error {
	known, err := p.cfg.Record.KnownHomes(ctx)
	if err != nil || sameLinks(known, p.cfg.Links.Added()) {
		return err
	}
	return p.relink(ctx)
}

func sameLinks(a, b []federation.KnownHome) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(one federation.KnownHome) bool {
		return !slices.ContainsFunc(b, func(other federation.KnownHome) bool {
			return one.Home == other.Home && one.URL == other.URL && one.Path == other.Path
		})
	})
}

// Linkable returns the recorded homes to link. It omits homes with a taken name, and returns an
// error for them.
func Linkable(known []federation.KnownHome, taken func(name string) bool) ([]federation.KnownHome, error) {
	var free []federation.KnownHome
	var errs []error
	for _, each := range known {
		if taken(string(each.Home)) {
			errs = append(errs, fmt.Errorf("%s is in the configuration, and was added with baton peer add: remove one of the two", each.Home))
			continue
		}
		free = append(free, each)
	}
	return free, errors.Join(errs...)
}

const inspectTimeout = 10 * time.Second

// Operators are warned of a certificate that ends earlier.
const certificateEnds = 14 * 24 * time.Hour

const documentPath federation.URLPath = "/.well-known/did.json"

// Inspection is the published profile of a home, with a finding for each check.
type Inspection struct {
	Home     federation.KnownHome // in the form for the record
	Findings []federation.Finding
}

// Failed returns the first failed check, if any.
func (i Inspection) Failed() (federation.Finding, bool) {
	n := slices.IndexFunc(i.Findings, func(f federation.Finding) bool { return f.State == federation.FindingFail })
	if n < 0 {
		return federation.Finding{}, false
	}
	return i.Findings[n], true
}

// Inspect fetches the profile of a home and checks it: name, tls, did (the signature), clock,
// versions, limits, path. It blocks for at most ten seconds. A failed check is not an error; a
// [*RequestError] explains why the profile cannot be read.
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

// No certificate proves a name other than the host of the address.
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

type signed struct {
	text      []byte
	signature string
	received  time.Time
}

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

// The profile was sent between the times asked and heard.
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

func checkVersions(profile federation.HomeProfile) federation.Finding {
	f := federation.Finding{What: "versions", State: federation.FindingOK, Detail: fmt.Sprint(federation.HomeProtocol)}
	if !profile.Speaks() {
		f.State, f.Detail = federation.FindingFail, fmt.Sprintf("it speaks %d, and this home %d", profile.Versions, federation.HomeProtocol)
	}
	return f
}

func checkLimits(takes, sent federation.HomeLimits) federation.Finding {
	f := federation.Finding{What: "limits", State: federation.FindingOK, Detail: fmt.Sprintf("%d steps and %d bytes at once", takes.Steps, takes.Bytes)}
	if takes.Steps < sent.Steps || takes.Bytes < sent.Bytes {
		f.State = federation.FindingFail
		f.Detail = fmt.Sprintf("it accepts %d steps and %d bytes at once; this home sends up to %d and %d", takes.Steps, takes.Bytes, sent.Steps, sent.Bytes)
	}
	return f
}

type documentKeys []ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k documentKeys) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return k, nil
}

// KeyOwner implements [federation.KeySource].
func (documentKeys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// homeKeys reads the keys of a home from the DID document at its address, because the keys
// stored here may be older.
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

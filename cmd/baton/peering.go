package main

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

	"baton/bridge/gateway"
	"baton/bridge/operatorapi"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/mailbox"
	"baton/federation/relay"
	"baton/federation/signing"
)

// lookTimeout bounds the look at another home, before anything is kept.
const lookTimeout = 10 * time.Second

// certificateEnds is how long a certificate has to be good at least that nobody is warned.
const certificateEnds = 14 * 24 * time.Hour

// linking asks for links to those homes that are on record as added. It is told once they
// run so, or why they do not.
type linking chan<- error

// relink has links to the homes that operators added, whenever it is asked, until ctx ends.
func (p *program) relink(ctx context.Context) error {
	for {
		select {
		case done := <-p.linking:
			done <- p.linkKnown(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// linkKnown makes the homes that operators added those on record, and leaves all other
// links as they are.
func (p *program) linkKnown(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	links := slices.DeleteFunc(p.gateway.Links().Entries(), func(o gateway.Entry) bool { return o.Added })
	known, err := p.record.KnownHomes(ctx)
	if err != nil {
		return err
	}
	links, err = p.withHomes(links, known)
	p.apply(ctx, links)
	return err
}

// linked returns when the homes that operators added are linked.
func (p *program) linked(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case p.linking <- done:
		return <-done
	case <-p.ended:
		return &federation.UnavailableError{What: "gateway", Err: errors.New("it is ending")}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withKnown adds the homes that operators added to the links of a configuration. One that
// is in both is an error.
func (p *program) withKnown(ctx context.Context, links []gateway.Entry) ([]gateway.Entry, error) {
	known, err := p.record.KnownHomes(ctx)
	if err != nil {
		return nil, err
	}
	return p.withHomes(links, known)
}

// withHomes adds other homes to links. One that the configuration names is left out, and an
// error.
func (p *program) withHomes(links []gateway.Entry, known []federation.KnownHome) ([]gateway.Entry, error) {
	var errs []error
	for _, each := range known {
		if slices.ContainsFunc(links, func(o gateway.Entry) bool { return o.Link.Name() == string(each.Home) }) {
			errs = append(errs, fmt.Errorf("%s is in the configuration, and was added with baton peer add: take it out of the one, or remove it first", each.Home))
			continue
		}
		links = p.withHome(links, each)
	}
	return links, errors.Join(errs...)
}

// withHome adds another home to links.
func (p *program) withHome(links []gateway.Entry, known federation.KnownHome) []gateway.Entry {
	peer := relay.NewPeer(relay.PeerConfig{Home: known.Home, URL: known.URL, Path: relay.Path(known.Path), Mode: relay.Allow}, p.homes.deps())
	peer.Say(relay.Mode((*p.modes.Load())[peer.Name()]))
	links = append(links, openedPeer(peer, configs.Table{}, true))
	if !slices.ContainsFunc(links, func(o gateway.Entry) bool { return o.Link.Name() == mailbox.Unrouted }) {
		links = append(links, gateway.Entry{Link: newUnrouted(p.homes)})
	}
	return links
}

// addPeer looks at another home, keeps it, and offers it a canary.
func (p *program) addPeer(ctx context.Context, ask operatorapi.Peering) (operatorapi.Peered, error) {
	address, err := url.Parse(ask.URL)
	if err != nil || federation.CheckOrigin(ask.URL) != nil {
		return operatorapi.Peered{}, wrongURL("url: want https:// and a host, without a path, not " + ask.URL)
	}
	if address.Scheme == "http" && !ask.AllowPrivate {
		return operatorapi.Peered{}, wrongURL("url: it is without TLS; say --allow-private in a closed network")
	}
	if ask.AllowPrivate && !p.file.Fetch.AllowPrivate {
		return operatorapi.Peered{}, wrongURL("private addresses are not reached: fetch.allow_private of the configuration is false")
	}
	looked, known, err := p.lookAt(ctx, ask)
	if err != nil || ask.DryRun {
		return looked, err
	}
	if i := slices.IndexFunc(looked.Checks, func(c operatorapi.Check) bool { return c.State == string(federation.FindingFail) }); i >= 0 {
		return looked, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: looked.Checks[i].Check + ": " + looked.Checks[i].Detail}
	}
	if err := p.record.KeepHome(ctx, known); err != nil {
		return looked, err
	}
	p.forgetKeys(known.Home.DID()) // where they were looked for in vain before
	err = p.linked(ctx)
	p.gateway.TellReplicas()
	if err != nil {
		return looked, err
	}
	canary, err := p.homes.canary(ctx, known.Home)
	looked.Canary = &canary
	return looked, err
}

func wrongURL(detail string) error {
	return &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: detail}
}

// removePeer forgets a home that an operator added. What it is owed waits until it is
// added again, or dropped, or too old.
func (p *program) removePeer(ctx context.Context, name string, dry bool) (operatorapi.Peer, error) {
	known, err := p.record.KnownHomes(ctx)
	if err != nil {
		return operatorapi.Peer{}, err
	}
	i := slices.IndexFunc(known, func(k federation.KnownHome) bool { return string(k.Home) == name })
	switch configured := slices.ContainsFunc(p.peers(), func(other operatorapi.Peer) bool { return other.Name == name }); {
	case i < 0 && configured:
		return operatorapi.Peer{}, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: name + " is in the configuration: take it out there"}
	case i < 0:
		return operatorapi.Peer{}, &operatorapi.ProblemError{Status: http.StatusNotFound, Code: operatorapi.CodeNotFound, Detail: "there is no peer " + name}
	}
	gone := operatorapi.Peer{Name: name, Network: relay.Network, Origin: operatorapi.FromRecord, URL: known[i].URL}
	if dry {
		return gone, nil
	}
	if err := p.record.ForgetHome(ctx, known[i].Home); err != nil {
		return gone, err
	}
	defer p.gateway.TellReplicas()
	return gone, p.linked(ctx)
}

// lookAt reads what another home says of itself, and examines it. An error is why that
// cannot be read.
func (p *program) lookAt(ctx context.Context, ask operatorapi.Peering) (operatorapi.Peered, federation.KnownHome, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	client := identity.NewPeerClient(identity.FetchConfig{AllowPrivate: ask.AllowPrivate, Denied: deniedNetworks(p.file)})
	defer client.Close()
	asked := time.Now()
	profileAt, err := federation.JoinURL(ask.URL, federation.ProfilePath, nil)
	if err != nil {
		return operatorapi.Peered{}, federation.KnownHome{}, wrongURL("url: " + err.Error())
	}
	text, header, secured, err := client.Look(ctx, profileAt)
	if err != nil {
		return operatorapi.Peered{}, federation.KnownHome{}, &operatorapi.ProblemError{
			Status: http.StatusServiceUnavailable, Code: operatorapi.CodeUnavailable, Detail: "read " + string(federation.ProfilePath) + ": " + err.Error(),
		}
	}
	heard := time.Now()
	profile, err := federation.ParseHomeProfile(text)
	if err != nil {
		return operatorapi.Peered{}, federation.KnownHome{}, &operatorapi.ProblemError{
			Status: http.StatusBadGateway, Code: operatorapi.CodeFailed, Detail: "read " + string(federation.ProfilePath) + ": " + err.Error(),
		}
	}
	path := relay.ByHTTPS
	if p.hub != nil {
		path = relay.ByRelay
	}
	known := federation.KnownHome{Home: profile.Home, URL: ask.URL, Path: string(path), Since: heard}
	looked := operatorapi.Peered{Peer: operatorapi.Peer{
		Name: string(profile.Home), Network: relay.Network, Mode: string(relay.Allow), Origin: operatorapi.FromRecord, URL: ask.URL,
		PeerHome: &operatorapi.PeerHome{Path: string(path), Forks: []operatorapi.Fork{}},
	}}
	check := func(what string, state federation.FindingState, detail string) {
		looked.Checks = append(looked.Checks, operatorapi.Check{Check: what, State: string(state), Detail: detail})
	}
	looked.Checks = append(looked.Checks, p.checkName(profile, ask.URL), checkTLS(secured, heard))
	key, err := p.keysOf(ctx, client, profile, ask.URL)
	if err == nil {
		_, err = signing.VerifyHome(ctx, key, profile.Home, text, header.Get(federation.SignatureHeader), heard)
	}
	if err != nil {
		check("did", federation.FindingFail, err.Error())
	} else {
		check("did", federation.FindingOK, string(profile.DID)+" has signed this with "+federation.KeyID(key[0]))
	}
	looked.Checks = append(looked.Checks, p.checkClock(profile, asked, heard), checkVersions(profile), checkTakes(profile))
	check("path", federation.FindingOK, string(path))
	return looked, known, nil
}

// checkName looks whether there is room for a home of that name.
func (p *program) checkName(profile federation.HomeProfile, address string) operatorapi.Check {
	c := operatorapi.Check{Check: "name", State: string(federation.FindingOK), Detail: string(profile.Home)}
	fail := func(why string) operatorapi.Check {
		return operatorapi.Check{Check: c.Check, State: string(federation.FindingFail), Detail: why}
	}
	if profile.Home == p.homeID() {
		return fail(string(profile.Home) + " is this gateway's own name")
	}
	for _, o := range p.gateway.Links().Entries() {
		switch peer, ok := o.Link.(*relay.Peer); {
		case o.Link.Name() != string(profile.Home):
		case ok && peer.URL() == address && o.Added:
			c.Detail += ", which is known already: a canary is sent again"
		case ok:
			return fail(string(profile.Home) + " is a peer already, at " + peer.URL())
		default:
			return fail(string(profile.Home) + " is the name of another link")
		}
	}
	if u, err := url.Parse(address); err == nil && u.Hostname() != string(profile.Home) {
		c.State, c.Detail = string(federation.FindingWarn), c.Detail+", and not the host of its address: whose it is is on your word"
	}
	return c
}

// checkTLS looks at what a connection was secured with.
func checkTLS(state *tls.ConnectionState, now time.Time) operatorapi.Check {
	c := operatorapi.Check{Check: "tls", State: string(federation.FindingOK)}
	if state == nil {
		c.State, c.Detail = string(federation.FindingWarn), "none: what is sent can be read on its way, and is signed all the same"
		return c
	}
	ends := state.PeerCertificates[0].NotAfter
	c.Detail = tls.VersionName(state.Version) + ", certificate good until " + ends.UTC().Format(time.DateOnly)
	if ends.Sub(now) < certificateEnds {
		c.State = string(federation.FindingWarn)
	}
	return c
}

// checkClock compares the clocks, of which one was read on its way here.
func (p *program) checkClock(profile federation.HomeProfile, asked, heard time.Time) operatorapi.Check {
	slip, most := max(asked.Sub(profile.Sent), profile.Sent.Sub(heard), 0), p.gateway.Home().Limits.ClockSkew
	c := operatorapi.Check{Check: "clock", State: string(federation.FindingOK), Detail: "as here"}
	switch {
	case slip > most:
		c.State, c.Detail = string(federation.FindingFail), fmt.Sprintf("%s apart, and at most %s is taken", slip.Round(time.Second), most)
	case slip > time.Second:
		c.State, c.Detail = string(federation.FindingWarn), slip.Round(time.Second).String()+" apart"
	}
	return c
}

func checkVersions(profile federation.HomeProfile) operatorapi.Check {
	if !profile.Speaks() {
		return operatorapi.Check{Check: "versions", State: string(federation.FindingFail), Detail: fmt.Sprintf("it speaks %d, and this home %d", profile.Versions, relay.Version)}
	}
	return operatorapi.Check{Check: "versions", State: string(federation.FindingOK), Detail: fmt.Sprint(relay.Version)}
}

func checkTakes(profile federation.HomeProfile) operatorapi.Check {
	if sent := relay.BatchLimits(); profile.Limits.Steps < sent.Steps || profile.Limits.Bytes < sent.Bytes {
		return operatorapi.Check{
			Check: "limits", State: string(federation.FindingFail),
			Detail: fmt.Sprintf("it takes %d steps and %d bytes at once, and is sent up to %d and %d", profile.Limits.Steps, profile.Limits.Bytes, sent.Steps, sent.Bytes),
		}
	}
	return operatorapi.Check{
		Check: "limits", State: string(federation.FindingOK), Detail: fmt.Sprintf("%d steps and %d bytes at once", profile.Limits.Steps, profile.Limits.Bytes),
	}
}

// documentKeys are the keys in a DID document. They implement [federation.KeySource].
type documentKeys []ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k documentKeys) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return k, nil
}

// KeyOwner implements [federation.KeySource].
func (documentKeys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// keysOf reads the keys of a home from the DID document at its address.
func (*program) keysOf(ctx context.Context, client *identity.PeerClient, profile federation.HomeProfile, address string) (documentKeys, error) {
	documentAt, err := federation.JoinURL(address, "/.well-known/did.json", nil)
	if err != nil {
		return nil, err
	}
	text, _, err := client.Do(ctx, http.MethodGet, documentAt, nil, nil)
	if err != nil {
		return nil, err
	}
	keys, err := identity.ParseDocument(profile.DID, text)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("the document of %s has no key", profile.DID)
	}
	return keys, err
}

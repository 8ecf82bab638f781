package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/bridge/operatorapi"
	"baton/configs"
	"baton/federation"
	"baton/federation/mailbox"
	"baton/federation/peering"
	"baton/federation/relay"
	"baton/translate/dialect"
)

// newPeering returns what adds and removes other homes.
func newPeering(p *program, h *homes) *peering.Peering {
	path := relay.ByHTTPS
	if p.hub != nil {
		path = relay.ByRelay
	}
	return peering.New(peering.Config{
		Home: p.homeID(), Path: string(path), Batch: relay.BatchLimits(), ClockSkew: h.clockSkew,
		Fetch: peerFetch(p.file), Record: p.record, Links: peerLinks{p}, Canary: h.canary,
	})
}

// newCanary returns what sends and answers canaries.
func newCanary(p *program) *peering.Canary {
	return &peering.Canary{
		Home: p.homeID(), PublicURL: p.publicURL,
		Key: func() federation.SigningKey { return p.gateway.Home().Key },
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev) // a step of the home itself fits every dialect
			return fields
		},
		Steps: homeSteps{boundRecord: p.bound(), gateway: p.gateway, wakes: p.relay}, Link: peerLinks{p}.Link,
	}
}

// homeSteps implements [peering.Steps].
type homeSteps struct {
	boundRecord
	gateway *gateway.Gateway
	wakes   bridge.Wakes
}

// Submit implements [peering.Steps].
func (s homeSteps) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	return s.gateway.Submit(ctx, ev)
}

// Arrivals implements [peering.Steps].
func (s homeSteps) Arrivals(did federation.DID) (wake <-chan struct{}, stop func()) {
	return s.wakes.Subscribe(bridge.DIDTopic(did))
}

// peerLinks implements [peering.Links] on the links of a gateway.
type peerLinks struct{ p *program }

// Link implements [peering.Links].
func (l peerLinks) Link(name string) (peering.Link, bool) {
	entries := l.p.gateway.Links().Entries()
	i := slices.IndexFunc(entries, func(o gateway.Entry) bool { return o.Link.Name() == name })
	if i < 0 {
		return peering.Link{}, false
	}
	link := peering.Link{Added: entries[i].Added}
	if peer := peerOf(entries[i]); peer != nil {
		link.Home, link.URL = true, peer.URL()
	}
	for _, s := range l.p.gateway.Links().Statuses() {
		if s.Link.Name() == name {
			link.Up, link.LastError = s.Status.State == bridge.LinkUp, s.Status.LastError
		}
	}
	return link, true
}

// Added implements [peering.Links].
func (l peerLinks) Added() []federation.KnownHome {
	var added []federation.KnownHome
	for _, o := range l.p.gateway.Links().Entries() {
		if peer := peerOf(o); peer != nil && o.Added {
			added = append(added, federation.KnownHome{Home: peer.Home(), URL: peer.URL(), Path: string(peer.Path())})
		}
	}
	return added
}

// IsPeer implements [peering.Links].
func (l peerLinks) IsPeer(name string) bool {
	return slices.ContainsFunc(l.p.peers(), func(peer operatorapi.Peer) bool { return peer.Name == name })
}

// Relink implements [peering.Links].
func (l peerLinks) Relink(ctx context.Context) error {
	l.p.changing.Lock()
	defer l.p.changing.Unlock()
	links := slices.DeleteFunc(l.p.gateway.Links().Entries(), func(o gateway.Entry) bool { return o.Added })
	known, err := l.p.record.KnownHomes(ctx)
	if err != nil {
		return err
	}
	links, err = l.p.withHomes(links, known)
	l.p.apply(ctx, links)
	return err
}

// ForgetKeys implements [peering.Links].
func (l peerLinks) ForgetKeys(did federation.DID) { l.p.forgetKeys(did) }

// TellReplicas implements [peering.Links].
func (l peerLinks) TellReplicas() { l.p.gateway.TellReplicas() }

// withKnown adds the homes that operators added to the links of a configuration. A home that
// is in both is an error.
func (p *program) withKnown(ctx context.Context, links []gateway.Entry) ([]gateway.Entry, error) {
	known, err := p.record.KnownHomes(ctx)
	if err != nil {
		return nil, err
	}
	if links, err = p.withHomes(links, known); err != nil {
		return links, err
	}
	knows, err := p.homes.locator.KnowsHomes(ctx)
	if knows && !namesOf(links)[mailbox.Unrouted] { // steps wait for the routes of homes that were peers
		links = append(links, gateway.Entry{Link: newUnrouted(p.homes)})
	}
	return links, err
}

// withHomes adds other homes to links. A home that the configuration names is left out, and
// an error.
func (p *program) withHomes(links []gateway.Entry, known []federation.KnownHome) ([]gateway.Entry, error) {
	taken := func(name string) bool {
		return slices.ContainsFunc(links, func(o gateway.Entry) bool { return o.Link.Name() == name })
	}
	free, err := peering.Linkable(known, taken)
	for _, each := range free {
		peer := relay.NewPeer(relay.PeerConfig{Home: each.Home, URL: each.URL, Path: relay.Path(each.Path), Mode: relay.Allow}, p.homes.deps())
		peer.Say(relay.Mode(p.modes.Mode(peer.Name())))
		links = append(links, openedPeer(peer, configs.Table{}, true))
		if !taken(mailbox.Unrouted) {
			links = append(links, gateway.Entry{Link: newUnrouted(p.homes)})
		}
	}
	return links, err
}

// addPeer adds another home for an operator.
func (h *homes) addPeer(ctx context.Context, ask operatorapi.Peering) (operatorapi.Peered, error) {
	added, err := h.peering.Add(ctx, peering.Request{URL: ask.URL, AllowPrivate: ask.AllowPrivate, DryRun: ask.DryRun})
	if err != nil {
		return operatorapi.Peered{}, problemOf(err)
	}
	peered := operatorapi.Peered{
		Peer: operatorapi.Peer{
			Name: string(added.Home.Home), Network: relay.Network, Mode: string(relay.Allow), Origin: operatorapi.FromRecord, URL: added.Home.URL,
			PeerHome: &operatorapi.PeerHome{Path: added.Home.Path, Forks: []operatorapi.Fork{}},
		},
		Checks: checksOf(added.Findings),
	}
	if canary := added.Canary; canary != nil {
		peered.Canary = &operatorapi.Canary{Handoff: canary.Handoff, Green: canary.Green, Took: canary.Took.String(), Reason: canary.Reason}
	}
	return peered, nil
}

// removePeer removes another home for an operator.
func (h *homes) removePeer(ctx context.Context, name string, dry bool) (operatorapi.Peer, error) {
	gone, err := h.peering.Remove(ctx, name, dry)
	return operatorapi.Peer{Name: name, Network: relay.Network, Origin: operatorapi.FromRecord, URL: gone.URL}, problemOf(err)
}

// checkRelay examines the server that wakes waiters inside this gateway, and the one at which
// homes meet.
func (p *program) checkRelay(ctx context.Context) []operatorapi.Check {
	found := []federation.Finding{{What: "inside", State: federation.FindingOK, Detail: p.relay.Where()}}
	if err := p.relay.Ready(); err != nil {
		found[0].State, found[0].Detail = federation.FindingWarn, err.Error()+": who waits looks every second"
	}
	if p.hub == nil {
		found = append(found, federation.Finding{What: "hub", State: federation.FindingOK, Detail: "none: homes are reached by HTTPS"})
	} else {
		found = append(found, p.hub.Check(ctx, p.homes.peers(), time.Now)...)
	}
	return checksOf(found)
}

// checksOf returns findings as the operator API shows them.
func checksOf(findings []federation.Finding) []operatorapi.Check {
	checks := []operatorapi.Check{}
	for _, f := range findings {
		checks = append(checks, operatorapi.Check{Check: f.What, State: string(f.State), Detail: f.Detail})
	}
	return checks
}

// problemOf returns an error of a package of federation as the operator API tells it.
func problemOf(err error) error {
	if unknown, ok := errors.AsType[*mailbox.PeerError](err); ok {
		return &operatorapi.ProblemError{Status: http.StatusNotFound, Code: operatorapi.CodeNotFound, Detail: unknown.Error()}
	}
	if elsewhere, ok := errors.AsType[*mailbox.ElsewhereError](err); ok {
		return &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: elsewhere.Error()}
	}
	refused, ok := errors.AsType[*peering.RequestError](err)
	if !ok {
		return err
	}
	problem := &operatorapi.ProblemError{Detail: refused.Detail}
	switch refused.Reason {
	case peering.Malformed:
		problem.Status, problem.Code = http.StatusBadRequest, operatorapi.CodeUsage
	case peering.Unknown:
		problem.Status, problem.Code = http.StatusNotFound, operatorapi.CodeNotFound
	case peering.Conflict:
		problem.Status, problem.Code = http.StatusConflict, operatorapi.CodeFailed
	case peering.Unreachable:
		problem.Status, problem.Code = http.StatusServiceUnavailable, operatorapi.CodeUnavailable
	case peering.Unreadable:
		problem.Status, problem.Code = http.StatusBadGateway, operatorapi.CodeFailed
	}
	return problem
}

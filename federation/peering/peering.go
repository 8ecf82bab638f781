// Package peering adds other homes to a running gateway, and removes them.
//
// [Peering.Add] inspects a home first: it fetches the profile and the DID document of the
// home and checks name, TLS, signature, clock, version and limits (see [Peering.Inspect]). A
// home without a failed check goes on record and is linked. Then a [Canary] shows whether
// handoffs go through: this home offers one, and the other home accepts and completes it by
// itself.
//
// [Peering.Run] keeps the linked homes the same as those on record, which the replicas of a
// home share. Methods may be called concurrently.
package peering

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/identity"
)

// Record keeps the homes that operators added. Its methods block until the change is on disk.
type Record interface {
	// KeepHome keeps a home, in place of what was kept of it before.
	KeepHome(ctx context.Context, h federation.KnownHome) error
	// ForgetHome removes a home. It returns [federation.ErrNotFound] for one that is not kept.
	ForgetHome(ctx context.Context, home federation.HomeID) error
	// KnownHomes returns all of them, by name.
	KnownHomes(ctx context.Context) ([]federation.KnownHome, error)
}

// Links is the set of links of the gateway. Only Relink blocks.
type Links interface {
	// Link returns the link with a name, and whether there is one.
	Link(name string) (Link, bool)
	// Added returns the linked homes that operators added.
	Added() []federation.KnownHome
	// IsPeer reports whether a home or a registry has the name.
	IsPeer(name string) bool
	// Relink links the homes on record that are not linked, and ends the links to homes that
	// are not on record any more. It leaves the links of the configuration as they are, and
	// blocks until the ended links are closed. The new links run until ctx ends.
	Relink(ctx context.Context) error
	// ForgetKeys drops the keys of a DID that are held in memory.
	ForgetKeys(did federation.DID)
	// TellReplicas makes the other replicas of this home read the record again.
	TellReplicas()
}

// Link is one link of the gateway.
type Link struct {
	Home      bool   // it leads to another home
	URL       string // of that home
	Added     bool   // an operator added it while a gateway ran
	Up        bool
	LastError string // of the last connection that failed
}

// Config is what a [Peering] is made of.
type Config struct {
	Home      federation.HomeID     // this home
	Path      string                // on which added homes are reached: relay or https
	Batch     federation.HomeLimits // the largest batch that this home sends
	ClockSkew func() time.Duration  // by which the clock of another home may differ
	// Fetch says which addresses are fetched. Private ones are, where it and the request
	// allow them.
	Fetch  identity.FetchConfig
	Record Record
	Links  Links
	Canary *Canary
}

// Peering adds and removes other homes.
type Peering struct {
	cfg     Config
	relinks chan chan<- error
	ended   chan struct{} // closed when Run has ended
}

// New returns a peering. Its other methods wait for [Peering.Run] where they change links.
func New(cfg Config) *Peering {
	return &Peering{cfg: cfg, relinks: make(chan chan<- error), ended: make(chan struct{})}
}

// Reason says why a request of an operator is not carried out.
type Reason string

// The reasons.
const (
	Malformed   Reason = "malformed"   // the request is wrong in itself
	Unknown     Reason = "unknown"     // there is no such home
	Conflict    Reason = "conflict"    // a check failed, or the configuration names the home
	Unreachable Reason = "unreachable" // the other home does not answer now
	Unreadable  Reason = "unreadable"  // the answer of the other home is no profile
)

// RequestError is returned for a request that is not carried out.
type RequestError struct {
	Reason Reason
	Detail string // for operators
}

// Error implements error.
func (e *RequestError) Error() string { return e.Detail }

// Request asks for a home to be added.
type Request struct {
	URL string // without a path
	// AllowPrivate says that the operator knows that the address is a private one, or
	// without TLS.
	AllowPrivate bool
	// DryRun asks for the inspection alone.
	DryRun bool
}

// Added is a home that was inspected, and the canary that was sent to it.
type Added struct {
	Inspection

	Canary *CanaryReport // nil where none was sent
}

// Add inspects a home, keeps and links it, and sends it a canary. It blocks until the canary
// is back, some thirty seconds at most. The error is a [*RequestError], or that of the record
// or the gateway.
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
	p.cfg.Links.ForgetKeys(found.Home.Home.DID()) // an earlier look-up may have failed
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

// Remove forgets a home that an operator added, and ends the link to it. Its pending deliveries
// wait for another route, or until the home is added again. With dry it
// only looks for the home. The error is a [*RequestError], or that of the record.
func (p *Peering) Remove(ctx context.Context, name string, dry bool) (federation.KnownHome, error) {
	known, err := p.cfg.Record.KnownHomes(ctx)
	if err != nil {
		return federation.KnownHome{}, err
	}
	i := slices.IndexFunc(known, func(k federation.KnownHome) bool { return string(k.Home) == name })
	switch {
	case i < 0 && p.configured(name):
		return federation.KnownHome{}, &RequestError{Conflict, name + " is in the configuration: take it out there"}
	case i < 0 && p.cfg.Links.IsPeer(name):
		return federation.KnownHome{}, &RequestError{Conflict, name + " is a registry, and no home that an operator added: baton peer mode sets what it may do"}
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

// configured reports whether the configuration names a home.
func (p *Peering) configured(name string) bool {
	link, linked := p.cfg.Links.Link(name)
	return linked && link.Home && !link.Added
}

// Run carries out requests to change links, one at a time, until ctx ends. It is called once.
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

// relink has [Peering.Run] link the homes on record, and waits until they are linked. The
// links must outlive the request that asks for them, so they start there.
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

// TakeUp links the homes that operators added at other replicas of this home, and ends the
// links to the ones that they removed.
func (p *Peering) TakeUp(ctx context.Context) error {
	known, err := p.cfg.Record.KnownHomes(ctx)
	if err != nil || sameLinks(known, p.cfg.Links.Added()) {
		return err
	}
	return p.relink(ctx)
}

// sameLinks reports whether two sets of homes, in any order, are linked alike.
func sameLinks(a, b []federation.KnownHome) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(one federation.KnownHome) bool {
		return !slices.ContainsFunc(b, func(other federation.KnownHome) bool {
			return one.Home == other.Home && one.URL == other.URL && one.Path == other.Path
		})
	})
}

// Linkable returns the homes on record that are to be linked beside the links with the given
// names. A home that has one of these names is left out, and an error.
func Linkable(known []federation.KnownHome, taken func(name string) bool) ([]federation.KnownHome, error) {
	var free []federation.KnownHome
	var errs []error
	for _, each := range known {
		if taken(string(each.Home)) {
			errs = append(errs, fmt.Errorf("%s is in the configuration, and was added with baton peer add: take it out of the one, or remove it first", each.Home))
			continue
		}
		free = append(free, each)
	}
	return free, errors.Join(errs...)
}

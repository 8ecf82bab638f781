package operatorapi

import (
	"encoding/hex"
	"time"

	"baton/federation"
)

func (o *Operator) shapeHandoff(v federation.View, now time.Time) Handoff {
	caps := v.Caps
	if caps == nil {
		caps = []string{}
	}
	why := o.whyOrphaned(v, now)
	return Handoff{
		ID: v.ID, Kind: v.Kind, State: v.State, Version: v.Version, Home: v.Home, Venue: v.Venue, Dialect: v.Dialect,
		Offerer: v.Offerer, Offeree: v.Offeree, Assignee: v.Assignee, Title: v.Title, Deadline: Moment(v.Deadline), Caps: caps,
		Opened: Moment(v.Opened), Moved: Moment(v.Moved), Erased: Moment(v.Erased), Orphaned: why != "", OrphanReason: why,
	}
}

func shapeStep(e federation.Entry, name string) Step {
	ev := e.Event
	s := Step{
		EventID: ev.ID, Verb: ev.Verb, From: ev.From, Name: name, Network: ev.Arrival.Network, Link: ev.Arrival.Link,
		Time: Moment(ev.Time()), Filed: Moment(e.Filed), Provenance: ev.Provenance,
		Verdict: ev.FiledVerdict().String(), Erased: ev.Erased != nil,
		Scheme: ev.Dialect, KeyID: ev.Signature.KeyID, Note: ev.Note, Delivered: []Delivery{},
	}
	if actor := ev.Actor(); actor != ev.From {
		s.For = actor
	}
	if ev.Evidence != nil {
		s.Evidence = &Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return s
}

func shapeBinding(b federation.BoundName, origin string) Binding {
	return Binding{Network: b.Network, Name: b.Name, DID: b.DID, Vouch: b.Vouch, Origin: origin, Since: Moment(b.Since)}
}

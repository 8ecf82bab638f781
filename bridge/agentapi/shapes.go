package agentapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"time"

	"baton/bridge/agentapi/contract"
	"baton/federation"
)

// moment is a time as the contract has it; the zero one is left out.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

func shapeHandoff(v federation.View) contract.Handoff {
	caps := v.Caps
	if caps == nil {
		caps = []string{}
	}
	return contract.Handoff{
		ID: v.ID.String(), Kind: string(v.Kind), State: string(v.State), Over: v.Over, Version: int64(v.Version), //nolint:gosec // G115: steps are counted from 1
		Home: string(v.Home), Venue: v.Venue, Dialect: string(v.Dialect),
		Offerer: string(v.Offerer), Offeree: string(v.Offeree), Assignee: string(v.Assignee),
		Title: v.Title, Caps: caps, Deadline: moment(v.Deadline), Priority: v.Priority, Replaces: v.Replaces.String(),
		Opened: moment(v.Opened), Moved: moment(v.Moved),
	}
}

func (l *Link) shapeStep(ctx context.Context, e federation.Entry) contract.Step {
	ev, actor := e.Event, e.Event.Actor()
	s := contract.Step{
		EventID: ev.ID.String(), HandoffID: ev.Handoff.String(), Verb: string(ev.Verb), From: string(actor), Name: l.access.Name(ctx, actor),
		Time: moment(ev.Time()), Filed: moment(e.Filed), State: string(e.State), Provenance: string(ev.Provenance),
		Verdict: ev.FiledVerdict().String(),
		Dialect: string(ev.Dialect), Title: ev.Title, Note: ev.Note, Context: ev.Context, ContextHash: ev.ContextHash,
		Document: ev.Signature.Document, Signature: ev.Signature.Text,
		PublicKey: base64.RawURLEncoding.EncodeToString(ev.Signature.Key),
	}
	if actor != ev.From {
		s.SignedBy, s.For = string(ev.From), string(actor)
	}
	if ev.Evidence != nil {
		s.Evidence = contract.Evidence{URL: ev.Evidence.URL, Sha256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	return s
}

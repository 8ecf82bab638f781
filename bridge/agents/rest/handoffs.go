package rest

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

func (l *Link) listHandoffs(ctx context.Context, p contract.HandoffQuery) (contract.HandoffPage, error) {
	want := participant.Query{
		DID: p.DID, State: p.State, Kind: p.Kind, Capability: p.Capability, Channel: p.Channel, Claimable: p.Claimable, Words: p.Q, Since: p.Since,
	}
	items, next, err := l.access.List(ctx, callerOf(ctx).Caller, want, federation.Cursor(p.Cursor), p.Limit)
	if err != nil {
		return contract.HandoffPage{}, err
	}
	page := contract.HandoffPage{Items: make([]contract.Handoff, len(items)), NextCursor: string(next)}
	for i, each := range items {
		page.Items[i] = shapeHandoff(each)
	}
	return page, nil
}

func (l *Link) getHandoff(ctx context.Context, req contract.HandoffByID) (contract.Handoff, error) {
	var shown contract.Handoff
	view, err := l.access.Find(ctx, callerOf(ctx).Caller, req.ID)
	if err != nil {
		return shown, err
	}
	var after federation.Version
	if req.Cursor != "" {
		version, err := strconv.ParseUint(req.Cursor, 10, 63)
		if err != nil {
			return shown, federation.ErrUnknownCursor
		}
		after = federation.Version(version)
	}
	listed, err := l.access.Listed(ctx, callerOf(ctx).Caller, view)
	if err != nil {
		return shown, err
	}
	shown = shapeHandoff(listed)
	shown.Steps = []contract.Step{}
	for entry, err := range l.access.Log(ctx, view.ID, after) {
		if err != nil {
			return shown, fmt.Errorf("read log: %w", err)
		}
		if len(shown.Steps) == req.Limit {
			shown.NextCursor = strconv.FormatUint(uint64(entry.Version-1), 10)
			break
		}
		shown.Steps = append(shown.Steps, l.shapeStep(ctx, entry))
	}
	return shown, nil
}

func (l *Link) getPassport(ctx context.Context, w http.ResponseWriter, req contract.ByID) error {
	document, err := l.access.Passport(ctx, callerOf(ctx).Caller, req.ID)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", document.MediaType)
	_, err = w.Write(document.Content)
	return err
}

func (l *Link) getPlace(ctx context.Context, req contract.PlaceQuery) (contract.Place, error) {
	var none contract.Place
	from, err := person(ctx)
	if err != nil {
		return none, err
	}
	var to federation.DID
	if req.To != "" {
		if to, err = federation.ParseDID(req.To); err != nil {
			return none, usage("to: " + err.Error())
		}
	}
	place, tags, err := l.access.Builder().Place(ctx, from, to, req.Channel)
	if err != nil {
		return none, err
	}
	return contract.Place{Target: cmp.Or(place.Venue, l.access.Builder().Pair(from, to)), Dialect: string(tags)}, nil
}

func (l *Link) createHandoff(ctx context.Context, req contract.OfferOnce) (contract.Filed, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Filed{}, err
	}
	return l.access.Offer(ctx, callerOf(ctx).Caller, body, participant.Request{Key: req.IdempotencyKey})
}

func (l *Link) createStep(ctx context.Context, req contract.StepOnce) (contract.Filed, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Filed{}, err
	}
	key := participant.Request{Key: req.IdempotencyKey}
	return l.access.Take(ctx, callerOf(ctx).Caller, req.ID, federation.Verb(req.Verb), body, key)
}

func (l *Link) getAgent(ctx context.Context, req contract.AgentByDID) (contract.Agent, error) {
	did, err := federation.ParseDID(req.DID)
	if err != nil {
		return contract.Agent{}, usage("did: " + err.Error())
	}
	agent, err := l.access.Agent(ctx, did)
	return shapeAgent(agent), err
}

func shapeAgent(a participant.Agent) contract.Agent {
	return contract.Agent{DID: string(a.DID), Name: a.Name, Description: a.Description, Caps: a.Caps}
}

func (l *Link) putAgent(ctx context.Context, req contract.AgentChange) (contract.Agent, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Agent{}, err
	}
	agent, err := l.access.Declare(ctx, callerOf(ctx).Caller, federation.DID(req.DID), participant.AgentUpdate(body), time.Now())
	return shapeAgent(agent), err
}

func shapeHandoff(l participant.Listed) contract.Handoff {
	v := l.View
	caps := v.Caps
	if caps == nil {
		caps = []string{}
	}
	return contract.Handoff{
		ID: v.ID.String(), Kind: string(v.Kind), State: string(v.State), Over: v.Over, Version: int64(v.Version), //nolint:gosec // G115: steps are counted from 1
		Home: string(v.Home), Venue: v.Venue, Dialect: string(v.Dialect),
		Offerer: string(v.Offerer), Offeree: string(v.Offeree), Assignee: string(v.Assignee),
		Title: v.Title, Caps: caps, Deadline: participant.Timestamp(v.Deadline), Priority: v.Priority, Replaces: v.Replaces.String(),
		Opened: participant.Timestamp(v.Opened), Moved: participant.Timestamp(v.Moved), MissingCaps: l.Missing,
	}
}

func (l *Link) shapeStep(ctx context.Context, e federation.Entry) contract.Step {
	ev, actor := e.Event, e.Event.Actor()
	s := contract.Step{
		EventID: ev.ID.String(), HandoffID: ev.Handoff.String(), Verb: string(ev.Verb), From: string(actor), Name: l.access.Name(ctx, actor),
		Time: participant.Timestamp(ev.Time()), Filed: participant.Timestamp(e.Filed), State: string(e.State), Provenance: string(ev.Provenance),
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

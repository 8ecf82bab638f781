package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

func (l *Link) listHandoffs(ctx context.Context, p contract.HandoffQuery) (contract.HandoffPage, error) {
	want := participant.Query{
		DID: p.DID, State: p.State, Kind: p.Kind, Capability: p.Capability, Channel: p.Channel, Claimable: p.Claimable != nil && *p.Claimable, Since: p.Since,
	}
	views, next, err := l.access.List(ctx, callerOf(ctx).Caller, want, federation.Cursor(p.Cursor), p.Limit)
	if err != nil {
		return contract.HandoffPage{}, err
	}
	page := contract.HandoffPage{Items: make([]contract.Handoff, len(views)), NextCursor: string(next)}
	for i, v := range views {
		page.Items[i] = shapeHandoff(v)
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
	shown = shapeHandoff(view)
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

// getPassport serves a passport as it was signed.
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

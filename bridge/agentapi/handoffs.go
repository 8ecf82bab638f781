package agentapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// ListHandoffs implements [contract.StrictServerInterface].
func (l *Link) ListHandoffs(ctx context.Context, req contract.ListHandoffsRequestObject) (contract.ListHandoffsResponseObject, error) {
	p := req.Params
	want := participant.Query{
		DID: p.DID, State: p.State, Kind: p.Kind, Capability: p.Capability, Channel: p.Channel, Claimable: p.Claimable, Since: p.Since,
	}
	views, next, err := l.access.List(ctx, callerOf(ctx).Caller, want, federation.Cursor(p.Cursor), cmp.Or(p.Limit, defaultLimit))
	if err != nil {
		return nil, err
	}
	page := contract.HandoffPage{Items: make([]contract.Handoff, len(views)), NextCursor: string(next)}
	for i, v := range views {
		page.Items[i] = shapeHandoff(v)
	}
	tag := etag(page)
	if matches(p.IfNoneMatch, tag) {
		return contract.ListHandoffs304Response{}, nil
	}
	return contract.ListHandoffs200JSONResponse{Body: page, Headers: contract.ListHandoffs200ResponseHeaders{ETag: tag}}, nil
}

// GetHandoff implements [contract.StrictServerInterface].
func (l *Link) GetHandoff(ctx context.Context, req contract.GetHandoffRequestObject) (contract.GetHandoffResponseObject, error) {
	view, err := l.access.Find(ctx, callerOf(ctx).Caller, req.ID)
	if err != nil {
		return nil, err
	}
	var after federation.Version
	if req.Params.Cursor != "" {
		version, err := strconv.ParseUint(req.Params.Cursor, 10, 63)
		if err != nil {
			return nil, federation.ErrUnknownCursor
		}
		after = federation.Version(version)
	}
	shown := shapeHandoff(view)
	shown.Steps = []contract.Step{}
	for entry, err := range l.access.Log(ctx, view.ID, after) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		if len(shown.Steps) == cmp.Or(req.Params.Limit, defaultLimit) {
			shown.NextCursor = strconv.FormatUint(uint64(entry.Version-1), 10)
			break
		}
		shown.Steps = append(shown.Steps, l.shapeStep(ctx, entry))
	}
	tag := etag(shown)
	if matches(req.Params.IfNoneMatch, tag) {
		return contract.GetHandoff304Response{}, nil
	}
	return contract.GetHandoff200JSONResponse{Body: shown, Headers: contract.GetHandoff200ResponseHeaders{ETag: tag}}, nil
}

// GetPassport implements [contract.StrictServerInterface].
func (l *Link) GetPassport(ctx context.Context, req contract.GetPassportRequestObject) (contract.GetPassportResponseObject, error) {
	document, err := l.access.Passport(ctx, callerOf(ctx).Caller, req.ID)
	return passport(document), err
}

// passport is served as it was signed.
type passport bridge.Document

// VisitGetPassportResponse implements [contract.GetPassportResponseObject].
func (p passport) VisitGetPassportResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", p.MediaType)
	_, err := w.Write(p.Content)
	return err
}

// GetPlace implements [contract.StrictServerInterface].
func (l *Link) GetPlace(ctx context.Context, req contract.GetPlaceRequestObject) (contract.GetPlaceResponseObject, error) {
	from, err := person(ctx)
	if err != nil {
		return nil, err
	}
	var to federation.DID
	if req.Params.To != "" {
		if to, err = federation.ParseDID(req.Params.To); err != nil {
			return nil, usage("to: " + err.Error())
		}
	}
	place, tags, err := l.access.Builder().Place(ctx, from, to, req.Params.Channel)
	if err != nil {
		return nil, err
	}
	return contract.GetPlace200JSONResponse{Target: cmp.Or(place.Venue, l.access.Builder().Pair(from, to)), Dialect: string(tags)}, nil
}

// etag returns the tag of an answer.
func etag(answer any) string {
	text, err := json.Marshal(answer)
	if err != nil {
		return "" // and the answer cannot be written either
	}
	sum := sha256.Sum256(text)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches reports whether a client has an answer already.
//
// spec: RFC 9110 §13.1.2
func matches(ifNoneMatch, tag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		if candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/"); candidate == "*" || candidate == tag && tag != "" {
			return true
		}
	}
	return false
}

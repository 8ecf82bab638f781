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
	"time"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/federation"
	"baton/translate"
)

// stateOpen is what the RFC calls all that is not over.
const stateOpen = "open"

// maxLooks bounds how often the record is asked for one page: each time it looks at
// a bounded number of handoffs, which may all be others than those wanted.
const maxLooks = 32

// wanted is what a list is asked for, beyond what the record can look for.
type wanted struct {
	federation.Filter

	unfinished bool
}

// ListHandoffs implements [contract.StrictServerInterface].
func (l *Link) ListHandoffs(ctx context.Context, req contract.ListHandoffsRequestObject) (contract.ListHandoffsResponseObject, error) {
	p := req.Params
	want, err := filterOf(ctx, p)
	if err != nil {
		return nil, err
	}
	views, next, err := l.list(ctx, want, federation.Cursor(p.Cursor), cmp.Or(p.Limit, defaultLimit))
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

// filterOf reads what a list is asked for. Without a place to look at it is the caller's
// own.
func filterOf(ctx context.Context, p contract.ListHandoffsParams) (wanted, error) {
	want := wanted{Filter: federation.Filter{
		DID: federation.DID(p.DID), State: federation.State(p.State), Kind: federation.Kind(p.Kind), Capability: p.Capability, Since: p.Since,
	}}
	if p.DID != "" {
		if _, err := federation.ParseDID(p.DID); err != nil {
			return wanted{}, usage("did: " + err.Error())
		}
	}
	if p.State == stateOpen {
		want.State, want.unfinished = "", true
	}
	if p.Channel != "" {
		venue, ok := translate.Channel(p.Channel)
		if !ok {
			return wanted{}, usage(fmt.Sprintf("channel: %q is none", p.Channel))
		}
		want.Venue = venue
	}
	if p.Claimable {
		if p.State != "" && p.State != stateOpen {
			return wanted{}, usage("claimable: what anyone may claim is in no other state")
		}
		want.State, want.unfinished = federation.Open, false
	}
	if p.DID == "" && p.Channel == "" && !p.Claimable {
		want.DID = callerOf(ctx).did
	}
	return want, nil
}

// list fills one page with what the caller may see, for as long as that is worth it.
func (l *Link) list(ctx context.Context, want wanted, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error) {
	who := callerOf(ctx)
	var views []federation.View
	for range maxLooks {
		more, next, err := l.deps.Handoffs.Handoffs(ctx, want.Filter, after, limit-len(views))
		if err != nil {
			return nil, "", fmt.Errorf("list handoffs: %w", err)
		}
		for _, v := range more {
			shown := !want.unfinished || !v.Over
			if shown {
				if shown, err = l.visible(ctx, who, v); err != nil {
					return nil, "", err
				}
			}
			if shown {
				views = append(views, v)
			}
		}
		if after = next; next == "" || len(views) >= limit {
			break
		}
	}
	return views, after, nil
}

// GetHandoff implements [contract.StrictServerInterface].
func (l *Link) GetHandoff(ctx context.Context, req contract.GetHandoffRequestObject) (contract.GetHandoffResponseObject, error) {
	view, err := l.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	var after uint64
	if req.Params.Cursor != "" {
		if after, err = strconv.ParseUint(req.Params.Cursor, 10, 63); err != nil {
			return nil, federation.ErrUnknownCursor
		}
	}
	shown := shapeHandoff(view)
	shown.Steps = []contract.Step{}
	for entry, err := range l.deps.Handoffs.Log(ctx, view.ID) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		if uint64(entry.Version) <= after {
			continue
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
	view, err := l.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	document, err := l.deps.Passports.Passport(ctx, view, time.Now())
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
	place, tags, err := l.builder().Place(ctx, from, to, req.Params.Channel)
	if err != nil {
		return nil, err
	}
	return contract.GetPlace200JSONResponse{Target: cmp.Or(place.Venue, l.builder().Pair(from, to)), Dialect: string(tags)}, nil
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

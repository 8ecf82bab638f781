package operatorapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"baton/bridge/operatorapi/contract"
)

// How many items one answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = contract.MaxLimit
)

// watchEvery is how often a watched list is read again.
const watchEvery = time.Second

// listing is one list as a request asked for it.
type listing struct {
	// page returns up to limit items after a cursor, as a [Page].
	page func(ctx context.Context, cursor string, limit int) (any, error)
	// news returns a function that returns the items that are new or changed since its last
	// call. The first call returns the items of page. It is nil for a list that cannot be
	// watched.
	news func(ctx context.Context, cursor string, limit int) func() ([]any, error)
}

// list is the answer to a request for a list: a page, or lines until the client leaves.
type list struct {
	operator *Operator
	ctx      context.Context //nolint:containedctx // of the request, which the answer belongs to
	page     any             // nil for a watched list
	items    []any           // the first of a watched list
	news     func() ([]any, error)
}

// list reads the first page of a list. The error is that of the listing before.
func (o *Operator) list(ctx context.Context, l listing, err error, limited *int, cursor string, watched *string) (list, error) {
	if err != nil {
		return list{}, err
	}
	limit, err := limitOf(limited)
	if err != nil {
		return list{}, err
	}
	answer := list{operator: o, ctx: ctx}
	if watched == nil {
		answer.page, err = l.page(ctx, cursor, limit)
		return answer, err
	}
	answer.news = l.news(ctx, cursor, limit)
	answer.items, err = answer.news()
	return answer, err
}

// limitOf returns the limit of a request, or the default.
func limitOf(limit *int) (int, error) {
	if limit == nil {
		return DefaultLimit, nil
	}
	if *limit < 1 || *limit > MaxLimit {
		return 0, usage("limit is a number from 1 to " + strconv.Itoa(MaxLimit))
	}
	return *limit, nil
}

func (l list) write(w http.ResponseWriter) error {
	if l.news != nil {
		l.watch(w)
		return nil
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(l.page); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := text.WriteTo(w)
	return err
}

// watch writes a line for each item of the page and then for each new one, until the client
// leaves or is not admitted any more, or the gateway stops.
func (l list) watch(w http.ResponseWriter) {
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the answer has no end; what takes no deadline has none
	_ = out.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/jsonl")
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		if err := writeLines(w, l.items); err != nil {
			return // the client has left
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-again.C:
		case <-l.ctx.Done():
			return
		case <-l.operator.deps.Ended:
			return
		}
		err := callerOf(l.ctx).still()
		if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
			return
		}
		if err == nil {
			l.items, err = l.news()
		}
		if err != nil {
			l.items = nil // the next look reads what cannot be read now
		}
	}
}

func writeLines(w http.ResponseWriter, items []any) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, item := range items {
		if err := encoder.Encode(item); err != nil {
			return err
		}
	}
	_, err := w.Write(lines.Bytes())
	return err
}

// VisitListHandoffsResponse implements [contract.ListHandoffsResponseObject].
func (l list) VisitListHandoffsResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListInboxResponse implements [contract.ListInboxResponseObject].
func (l list) VisitListInboxResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListLinksResponse implements [contract.ListLinksResponseObject].
func (l list) VisitListLinksResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListFeedsResponse implements [contract.ListFeedsResponseObject].
func (l list) VisitListFeedsResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListFeedShapesResponse implements [contract.ListFeedShapesResponseObject].
func (l list) VisitListFeedShapesResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListDeadResponse implements [contract.ListDeadResponseObject].
func (l list) VisitListDeadResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListHeldResponse implements [contract.ListHeldResponseObject].
func (l list) VisitListHeldResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListWebhooksResponse implements [contract.ListWebhooksResponseObject].
func (l list) VisitListWebhooksResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListPeersResponse implements [contract.ListPeersResponseObject].
func (l list) VisitListPeersResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListBindingsResponse implements [contract.ListBindingsResponseObject].
func (l list) VisitListBindingsResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListBlocksResponse implements [contract.ListBlocksResponseObject].
func (l list) VisitListBlocksResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListTopResponse implements [contract.ListTopResponseObject].
func (l list) VisitListTopResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListTokensResponse implements [contract.ListTokensResponseObject].
func (l list) VisitListTokensResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitCheckRelayResponse implements [contract.CheckRelayResponseObject].
func (l list) VisitCheckRelayResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListKeysResponse implements [contract.ListKeysResponseObject].
func (l list) VisitListKeysResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListAuditResponse implements [contract.ListAuditResponseObject].
func (l list) VisitListAuditResponse(w http.ResponseWriter) error { return l.write(w) }

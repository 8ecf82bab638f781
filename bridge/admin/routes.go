package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"baton/bridge/admin/contract"
	"baton/bridge/route"
	"baton/federation"
)

// mounted is a route and its handler.
type mounted struct {
	route.Description

	answer func(o *Operator) route.Answer
}

// serve serves a route with a method of the API.
func serve[In, Out any](r route.Route[In, Out], answer func(o *Operator, ctx context.Context, in In) (Out, error)) mounted {
	return mounted{route.Describe(r), func(o *Operator) route.Answer {
		return route.Answering(r, func(ctx context.Context, in In) (Out, error) { return answer(o, ctx, in) })
	}}
}

// routes returns the routes of the API. Operators act as participants over another one:
// [contract.CallParticipant].
func routes() []mounted {
	return []mounted{
		list(contract.ListHandoffs, (*Operator).handoffs),
		serve(contract.OfferHandoff, (*Operator).offerHandoff),
		serve(contract.GetHandoff, (*Operator).getHandoff),
		serve(contract.GetPassport, (*Operator).getPassport),
		serve(contract.TakeStep, (*Operator).takeStep),
		serve(contract.EndOrphan, (*Operator).endOrphan),
		serve(contract.ExplainEvent, (*Operator).explainEvent),
		serve(contract.ExplainDID, (*Operator).explainDID),
		serve(contract.GetPlace, (*Operator).getPlace),
		serve(contract.StoreBlob, (*Operator).storeBlob),
		serve(contract.Erase, (*Operator).erase),

		list(contract.ListInbox, (*Operator).inbox),
		serve(contract.AckInbox, (*Operator).ackInbox),
		serve(contract.MoveInbox, (*Operator).moveInbox),

		list(contract.ListLinks, (*Operator).links),
		serve(contract.GetLink, (*Operator).getLink),
		serve(contract.ChangeLink, (*Operator).changeLink),
		list(contract.ListFeeds, (*Operator).feeds),
		list(contract.ListFeedShapes, (*Operator).shapes),
		serve(contract.ChangeFeed, (*Operator).changeFeed),
		list(contract.ListDead, (*Operator).deadLetters),
		serve(contract.GetDead, (*Operator).getDead),
		serve(contract.SettleDead, (*Operator).settleDead),
		list(contract.ListHeld, (*Operator).heldRelays),
		serve(contract.SettleHeld, (*Operator).settleHeld),
		list(contract.ListWebhooks, (*Operator).webhooks),
		serve(contract.GetWebhook, (*Operator).getWebhook),
		serve(contract.ChangeWebhook, (*Operator).changeWebhook),

		list(contract.ListPeers, (*Operator).peers),
		serve(contract.AddPeer, (*Operator).addPeer),
		serve(contract.GetPeer, (*Operator).getPeer),
		serve(contract.RemovePeer, (*Operator).removePeer),
		serve(contract.SetPeerMode, (*Operator).setPeerMode),
		serve(contract.ComparePeer, (*Operator).comparePeer),
		list(contract.CheckRelay, (*Operator).relay),
		list(contract.ListBindings, (*Operator).bindings),
		serve(contract.BindName, (*Operator).bindName),
		serve(contract.UnbindName, (*Operator).unbindName),
		serve(contract.ReleaseHandle, (*Operator).releaseHandle),
		list(contract.ListBlocks, (*Operator).blocks),
		serve(contract.AddBlock, (*Operator).addBlock),
		serve(contract.Unblock, (*Operator).unblock),
		list(contract.ListTop, (*Operator).top),

		serve(contract.Examine, (*Operator).examine),
		serve(contract.ExamineOnline, (*Operator).examineOnline),
		serve(contract.AcceptClock, (*Operator).acceptClock),
		serve(contract.GetPolicy, (*Operator).getPolicy),
		serve(contract.ReloadConfig, (*Operator).reloadConfig),
		serve(contract.SetLogLevel, (*Operator).setLogLevel),
		list(contract.ListKeys, (*Operator).keys),
		serve(contract.RotateKey, (*Operator).rotateKey),
		serve(contract.Backup, (*Operator).backup),
		list(contract.ListTokens, (*Operator).tokens),
		serve(contract.CreateToken, (*Operator).createToken),
		serve(contract.RevokeToken, (*Operator).revokeToken),
		serve(contract.EndSessions, (*Operator).endSessions),
		serve(contract.CreatePairingCode, (*Operator).createPairingCode),
		list(contract.ListAudit, (*Operator).audit),
	}
}

// Mount registers the routes, for the callers that an admission admits.
func (o *Operator) Mount(mux *http.ServeMux, admit Admission) {
	for _, each := range routes() {
		handler, parameters := each.Handler(each.answer(o), o.tell), parametersOf(each.Description)
		serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkParameters(r, parameters); err != nil {
				o.tell(w, r, err)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			handler.ServeHTTP(w, r)
		})
		mux.Handle(each.Method+" "+Prefix+each.Path, o.Admitted(admit, each.Scope, serve))
	}
	mux.Handle(Prefix, o.Admitted(admit, federation.ReadScope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.tell(w, r, errNone(fmt.Sprintf("%s %s", r.Method, r.URL.Path)))
	})))
}

// parametersOf returns the names of the query parameters of a route.
func parametersOf(d route.Description) []string {
	var names []string
	for _, field := range route.Fields(d.In) {
		if field.Place == route.InQuery {
			names = append(names, field.Name)
		}
	}
	return names
}

// checkParameters returns an error for a parameter that a route does not have: a misspelt filter must
// not answer with everything. Changes without parameters ignore all of them, and every route
// ignores the parameters of lists.
func checkParameters(r *http.Request, names []string) error {
	if len(names) == 0 && (r.Method == http.MethodPost || r.Method == http.MethodPut) {
		return nil
	}
	for name := range r.URL.Query() {
		switch name {
		case "limit", "cursor":
			continue
		case "watch":
			if !slices.Contains(names, name) && slices.Contains(names, "cursor") {
				return usage("this list cannot be watched")
			}
			continue
		}
		if !slices.Contains(names, name) {
			return usage("there is no parameter " + strconv.Quote(name))
		}
	}
	return nil
}

// How many items one answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = contract.MaxLimit
)

// watchEvery is how often a watched list is read again.
const watchEvery = time.Second

// listing is one list as a request asked for it.
type listing[T any] struct {
	// page returns up to limit items after a cursor.
	page func(ctx context.Context, cursor string, limit int) (Page[T], error)
	// news returns a function that returns the items that are new or changed since its last
	// call. The first call returns the items of page. It is nil for a list that cannot be
	// watched.
	news func(ctx context.Context, cursor string, limit int) func() ([]T, error)
}

// list serves a route whose answer is a page, or lines until the client leaves.
func list[In contract.List, T any](r route.Route[In, Page[T]], open func(o *Operator, ctx context.Context, in In) (listing[T], error)) mounted {
	return mounted{route.Describe(r), func(o *Operator) route.Answer {
		return func(w http.ResponseWriter, request *http.Request) (any, error) {
			in, err := route.Read[In](request, route.MaxBodyBytes)
			if err != nil {
				return nil, err
			}
			l, err := open(o, request.Context(), in)
			if err != nil {
				return nil, err
			}
			page, watched := in.List()
			if watched {
				return nil, watch(request.Context(), o, w, l.news(request.Context(), page.Cursor, limitOf(page)))
			}
			return l.page(request.Context(), page.Cursor, limitOf(page))
		}
	}}
}

// limitOf returns the limit of a request, or the default.
func limitOf(page contract.Paging) int {
	if page.Limit == nil {
		return DefaultLimit
	}
	return *page.Limit
}

// watch writes a line for each item of the page and then for each new one, until the client
// leaves or is not admitted any more, or the gateway stops. The error is that of the first page.
func watch[T any](ctx context.Context, o *Operator, w http.ResponseWriter, news func() ([]T, error)) error {
	items, err := news()
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the answer has no end; what takes no deadline has none
	_ = out.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/jsonl")
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		if err := writeLines(w, items); err != nil {
			return nil // the client has left
		}
		if err := out.Flush(); err != nil {
			return nil // the client has left
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		case <-o.deps.Ended:
			return nil
		}
		err := callerOf(ctx).still()
		if _, turnedAway := errors.AsType[*ProblemError](err); turnedAway {
			return nil
		}
		if err == nil {
			items, err = news()
		}
		if err != nil {
			items = nil // the next look reads them
		}
	}
}

func writeLines[T any](w http.ResponseWriter, items []T) error {
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

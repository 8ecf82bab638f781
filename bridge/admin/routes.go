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

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type mounted struct {
	route.Description

	answer func(o *Operator) route.Answer
}

func serve[In, Out any](r route.Route[In, Out], answer func(o *Operator, ctx context.Context, in In) (Out, error)) mounted {
	return mounted{route.Describe(r), func(o *Operator) route.Answer {
		return route.Answering(r, func(ctx context.Context, in In) (Out, error) { return answer(o, ctx, in) })
	}}
}

// routes omits the operations of participants, which operators call with [CallParticipant].
func routes() []mounted {
	return []mounted{
		list(ListHandoffs, (*Operator).handoffs),
		serve(OfferHandoff, (*Operator).offerHandoff),
		serve(GetHandoff, (*Operator).getHandoff),
		serve(CountTroubles, (*Operator).countTroubles),
		serve(GetPassport, (*Operator).getPassport),
		serve(TakeStep, (*Operator).handleStep),
		serve(EndOrphan, (*Operator).endOrphan),
		serve(ExplainEvent, (*Operator).explainEvent),
		serve(ExplainDID, (*Operator).explainDID),
		serve(GetPlace, (*Operator).getPlace),
		serve(StoreBlob, (*Operator).storeBlob),
		serve(Erase, (*Operator).erase),

		list(ListInbox, (*Operator).inbox),
		serve(AckInbox, (*Operator).ackInbox),
		serve(MoveInbox, (*Operator).moveInbox),

		list(ListLinks, (*Operator).links),
		serve(GetLink, (*Operator).getLink),
		serve(ChangeLink, (*Operator).changeLink),
		list(ListFeeds, (*Operator).feeds),
		list(ListFeedShapes, (*Operator).shapes),
		serve(ChangeFeed, (*Operator).changeFeed),
		list(ListDead, (*Operator).deadLetters),
		serve(GetDead, (*Operator).getDead),
		serve(SettleDead, (*Operator).settleDead),
		list(ListHeld, (*Operator).heldRelays),
		serve(SettleHeld, (*Operator).settleHeld),
		list(ListWebhooks, (*Operator).webhooks),
		serve(GetWebhook, (*Operator).getWebhook),
		serve(ChangeWebhook, (*Operator).changeWebhook),

		list(ListPeers, (*Operator).peers),
		serve(AddPeer, (*Operator).addPeer),
		serve(GetPeer, (*Operator).getPeer),
		serve(RemovePeer, (*Operator).removePeer),
		serve(SetPeerMode, (*Operator).setPeerMode),
		serve(ComparePeer, (*Operator).comparePeer),
		list(CheckRelay, (*Operator).relay),
		list(ListBindings, (*Operator).bindings),
		serve(BindName, (*Operator).bindName),
		serve(UnbindName, (*Operator).unbindName),
		serve(ReleaseHandle, (*Operator).releaseHandle),
		list(ListBlocks, (*Operator).blocks),
		serve(AddBlock, (*Operator).addBlock),
		serve(Unblock, (*Operator).unblock),
		list(ListTop, (*Operator).top),

		serve(GetStatus, (*Operator).status),
		serve(Examine, (*Operator).examine),
		serve(ExamineOnline, (*Operator).examineOnline),
		serve(AcceptClock, (*Operator).acceptClock),
		serve(GetPolicy, (*Operator).getPolicy),
		serve(ReloadConfig, (*Operator).reloadConfig),
		serve(SetLogLevel, (*Operator).setLogLevel),
		list(ListKeys, (*Operator).keys),
		serve(RotateKey, (*Operator).rotateKey),
		serve(Backup, (*Operator).backup),
		list(ListTokens, (*Operator).tokens),
		serve(CreateToken, (*Operator).createToken),
		serve(RevokeToken, (*Operator).revokeToken),
		list(ListSessions, (*Operator).sessions),
		serve(EndSessions, (*Operator).endSessions),
		serve(CreatePairingCode, (*Operator).createPairingCode),
		list(ListAudit, (*Operator).audit),
	}
}

// Mount registers the routes for the admitted callers.
func (o *Operator) Mount(mux *http.ServeMux, admit Admission) {
	for _, each := range routes() {
		var parameters []string
		for _, field := range route.Fields(each.In) {
			if field.Place == route.InQuery {
				parameters = append(parameters, field.Name)
			}
		}
		handler := each.Handler(each.answer(o), o.writeProblem)
		serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkParameters(r, parameters); err != nil {
				o.writeProblem(w, r, err)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			handler.ServeHTTP(w, r)
		})
		mux.Handle(each.Method+" "+Prefix+each.Path, o.Admitted(admit, each.Scope, serve))
	}
	mux.Handle(Prefix, o.Admitted(admit, federation.ReadScope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.writeProblem(w, r, errNone(fmt.Sprintf("%s %s", r.Method, r.URL.Path)))
	})))
}

// checkParameters rejects unknown parameters, because a misspelt filter must not select everything.
// Changes without parameters ignore all of them, and every route ignores the parameters of lists.
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

// DefaultLimit is the default number of items in an answer.
const DefaultLimit = 50

const watchEvery = time.Second

type listing[T any] struct {
	// page returns up to limit items after a cursor.
	page func(ctx context.Context, cursor string, limit int) (Page[T], error)
	// news returns a function that returns the items new or changed since its last call. The first
	// call returns the items of page. It is nil for an unwatchable list.
	news func(ctx context.Context, cursor string, limit int) func() ([]T, error)
}

func list[In List, T any](r route.Route[In, Page[T]], open func(o *Operator, ctx context.Context, in In) (listing[T], error)) mounted {
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

func limitOf(page Paging) int {
	if page.Limit == nil {
		return DefaultLimit
	}
	return *page.Limit
}

// watch writes a line for each item of the page, and then for each new one. It ends when the client
// leaves or loses access, or when the gateway stops. It returns the error of the first page.
func watch[T any](ctx context.Context, o *Operator, w http.ResponseWriter, news func() ([]T, error)) error {
	items, err := news()
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the answer has no end; an error means a connection without deadlines
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
			items = nil // the next read returns them
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

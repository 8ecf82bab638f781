package operatorapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"baton/bridge/operatorapi/contract"
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

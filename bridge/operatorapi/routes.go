package operatorapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// wrapper parses the parameters of requests and calls the handlers of the API.
type wrapper = contract.ServerInterfaceWrapper

// route is one operation of the contract.
type route struct {
	pattern  string // method and path below [Prefix]
	needs    federation.Scope
	serve    func(w *wrapper, out http.ResponseWriter, r *http.Request)
	document func() any // an empty JSON body; nil for an operation without one
}

// routes returns the operations of the contract with the scopes that they need.
func routes() []route {
	const read, operate, admin = federation.ReadScope, federation.OperateScope, federation.AdminScope
	act := newDocument[Act]()
	return []route{
		{"GET handoffs", read, (*wrapper).ListHandoffs, nil},
		{"GET handoffs/{id}", read, (*wrapper).GetHandoff, nil},
		{"GET handoffs/{id}/passport", read, (*wrapper).GetPassport, nil},
		{"GET events/{id}/explain", read, (*wrapper).ExplainEvent, nil},
		{"GET dids/{did}/explain", read, (*wrapper).ExplainDID, nil},
		{"POST handoffs", operate, (*wrapper).OfferHandoff, newDocument[Ask]()},
		{"POST handoffs/{id}/{verb}", operate, (*wrapper).TakeStep, newDocument[Ask]()},
		{"POST handoffs/{id}/orphan/end", admin, (*wrapper).EndOrphan, act},
		{"GET place", read, (*wrapper).GetPlace, nil},
		{"POST blobs", operate, (*wrapper).StoreBlob, nil},

		{"GET inboxes/{did}", read, (*wrapper).ListInbox, nil},
		{"POST inboxes/{did}/ack", operate, (*wrapper).AckInbox, newDocument[Ack]()},
		{"POST inboxes/{did}/move", admin, (*wrapper).MoveInbox, newDocument[Move]()},

		{"GET links", read, (*wrapper).ListLinks, nil},
		{"GET links/{name}", read, (*wrapper).GetLink, nil},
		{"POST links/{name}/{verb}", operate, (*wrapper).ChangeLink, act},
		{"GET feeds", read, (*wrapper).ListFeeds, nil},
		{"GET feeds/shape", read, (*wrapper).ListFeedShapes, nil},
		{"POST feeds/{id}/{verb}", operate, (*wrapper).ChangeFeed, act},
		{"GET dead", read, (*wrapper).ListDead, nil},
		{"GET dead/{id}", read, (*wrapper).GetDead, nil},
		{"POST dead/{id}/{verb}", operate, (*wrapper).SettleDead, act},
		{"GET held", read, (*wrapper).ListHeld, nil},
		{"POST held/{id}/{verb}", operate, (*wrapper).SettleHeld, act},

		{"GET webhooks", read, (*wrapper).ListWebhooks, nil},
		{"GET webhooks/{id}", read, (*wrapper).GetWebhook, nil},
		{"POST webhooks/{id}/{verb}", operate, (*wrapper).ChangeWebhook, act},

		{"GET peers", read, (*wrapper).ListPeers, nil},
		{"GET peers/{name}", read, (*wrapper).GetPeer, nil},
		{"POST peers", admin, (*wrapper).AddPeer, newDocument[Peering]()},
		{"POST peers/{name}/mode", admin, (*wrapper).SetPeerMode, newDocument[Mode]()},
		{"POST peers/{name}/compare", operate, (*wrapper).ComparePeer, act},
		{"DELETE peers/{name}", admin, (*wrapper).RemovePeer, nil},
		{"GET bindings", read, (*wrapper).ListBindings, nil},
		{"PUT bindings/{network}/{name...}", admin, (*wrapper).BindName, newDocument[Bind]()},
		{"DELETE bindings/{network}/{name...}", admin, (*wrapper).UnbindName, nil},

		{"POST handles/{handle}/release", admin, (*wrapper).ReleaseHandle, act},

		{"GET blocks", read, (*wrapper).ListBlocks, nil},
		{"GET top", read, (*wrapper).ListTop, nil},
		{"POST blocks", operate, (*wrapper).Block, newDocument[BlockAsk]()},
		{"DELETE blocks/{what...}", operate, (*wrapper).Unblock, nil},
		{"POST erasures", admin, (*wrapper).Erase, newDocument[contract.EraseAsk]()},

		{"GET doctor", read, (*wrapper).Examine, nil},
		{"POST doctor", operate, (*wrapper).ExamineOnline, nil},
		{"GET keys", read, (*wrapper).ListKeys, nil},
		{"GET policy", read, (*wrapper).GetPolicy, nil},
		{"POST config/reload", admin, (*wrapper).ReloadConfig, act},
		{"POST clock/accept", admin, (*wrapper).AcceptClock, act},
		{"POST log/level", operate, (*wrapper).SetLogLevel, newDocument[LevelAsk]()},
		{"POST keys/{name}/rotate", admin, (*wrapper).RotateKey, newDocument[Rotation]()},
		{"POST backup", admin, (*wrapper).Backup, nil}, // the keys are in it
		{"GET tokens", read, (*wrapper).ListTokens, nil},
		{"POST tokens", admin, (*wrapper).CreateToken, newDocument[TokenAsk]()},
		{"POST tokens/{name}/revoke", admin, (*wrapper).RevokeToken, act},
		{"POST sessions/{did}/end", admin, (*wrapper).EndSessions, act},
		{"GET relay", read, (*wrapper).CheckRelay, nil},
		{"GET audit", read, (*wrapper).ListAudit, nil},
	}
}

// Routes returns the scope that each route needs, by its pattern.
func Routes() map[string]federation.Scope {
	all := map[string]federation.Scope{}
	for _, each := range routes() {
		all[each.pattern] = each.needs
	}
	return all
}

// Mount registers the routes, for the callers that an admission admits.
func (o *Operator) Mount(mux *http.ServeMux, admit Admission) {
	told := func(w http.ResponseWriter, r *http.Request, err error) { o.tell(w, r, usage(err.Error())) }
	strict := contract.NewStrictHandlerWithOptions(o, nil, contract.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: told, ResponseErrorHandlerFunc: o.tell,
	})
	all := &wrapper{Handler: strict, ErrorHandlerFunc: told}
	known := sync.OnceValues(readParameters)
	for _, each := range routes() {
		method, path, _ := strings.Cut(each.pattern, " ")
		serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, err := known()
			if err == nil {
				err = p.check(r, each.pattern)
			}
			if err != nil {
				o.tell(w, r, err)
				return
			}
			if each.document != nil {
				r = exactBody(r, each.document)
			}
			w.Header().Set("Cache-Control", "no-store")
			each.serve(all, w, r)
		})
		mux.Handle(method+" "+Prefix+path, o.Admitted(admit, each.needs, serve))
	}
	mux.Handle(Prefix, o.Admitted(admit, federation.ReadScope, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.tell(w, r, errNone(fmt.Sprintf("%s %s", r.Method, r.URL.Path)))
	})))
}

package operatorapi

import (
	"net/http"
	"strings"

	"baton/federation"
)

// route is one thing that operators may ask for.
type route struct {
	pattern string // method and path below [Prefix]
	needs   federation.Scope
	serve   http.Handler
}

// routes returns all there are.
func (o *Operator) routes() []route {
	const read, operate, admin = federation.ReadScope, federation.OperateScope, federation.AdminScope
	return []route{
		{"GET handoffs", read, o.list(o.handoffs)},
		{"GET handoffs/{id}", read, o.serve(o.getHandoff)},
		{"GET handoffs/{id}/passport", read, http.HandlerFunc(o.getPassport)},
		{"GET events/{id}/explain", read, o.serve(o.getExplanation)},
		{"POST handoffs", operate, o.serve(o.postOffer)},
		{"POST handoffs/{id}/{verb}", operate, o.serve(o.postStep)},
		{"GET place", read, o.serve(o.getPlace)},
		{"POST blobs", operate, o.serve(o.postBlob)},

		{"GET inboxes/{did}", read, o.list(o.inbox)},
		{"POST inboxes/{did}/ack", operate, o.serve(o.postAck)},
		{"POST inboxes/{did}/move", admin, o.serve(o.postMove)},

		{"GET links", read, o.list(o.links)},
		{"GET links/{name}", read, o.serve(o.getLink)},
		{"GET feeds", read, o.list(o.feeds)},
		{"GET feeds/shape", read, o.list(o.shapes)},
		{"POST feeds/{id}/{verb}", operate, o.serve(o.postFeed)},
		{"GET dead", read, o.list(o.deadLetters)},
		{"GET dead/{id}", read, o.serve(o.getDead)},
		{"POST dead/{id}/{verb}", operate, o.serve(o.postDead)},

		{"GET webhooks", read, o.list(o.webhooks)},
		{"GET webhooks/{id}", read, o.serve(o.getWebhook)},
		{"POST webhooks/{id}/{verb}", operate, o.serve(o.postWebhook)},

		{"GET peers", read, o.list(o.peers)},
		{"GET peers/{name}", read, o.serve(o.getPeer)},
		{"POST peers", admin, o.serve(o.postPeer)},
		{"POST peers/{name}/mode", admin, o.serve(o.postMode)},
		{"DELETE peers/{name}", admin, o.serve(o.deletePeer)},
		{"GET bindings", read, o.list(o.bindings)},
		{"PUT bindings/{network}/{name...}", admin, o.serve(o.putBinding)},
		{"DELETE bindings/{network}/{name...}", admin, o.serve(o.deleteBinding)},

		{"GET blocks", read, o.list(o.blocks)},
		{"GET top", read, o.list(o.top)},
		{"POST blocks", operate, o.serve(o.postBlock)},
		{"DELETE blocks/{what...}", operate, o.serve(o.deleteBlock)},

		{"POST keys/{name}/rotate", admin, o.serve(o.postRotate)},
		{"POST backup", admin, http.HandlerFunc(o.postBackup)}, // the keys are in it
		{"GET tokens", read, o.list(o.tokens)},
		{"POST tokens", admin, o.serve(o.postToken)},
		{"POST tokens/{name}/revoke", admin, o.serve(o.postRevocation)},
		{"GET relay", read, o.list(o.relay)},
		{"GET audit", read, o.list(o.audit)},
	}
}

// Mount registers the routes, for those whom an admission lets in.
func (o *Operator) Mount(mux *http.ServeMux, admit Admission) {
	for _, each := range o.routes() {
		method, path, _ := strings.Cut(each.pattern, " ")
		mux.Handle(method+" "+Prefix+path, o.Admitted(admit, each.needs, each.serve))
	}
	mux.Handle(Prefix, o.Admitted(admit, federation.ReadScope, o.serve(func(r *http.Request) (answer, error) {
		return answer{}, &ProblemError{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "there is no " + r.Method + " " + r.URL.Path}
	})))
}

package main

import (
	"context"
	"net/http"

	"baton/bridge"
	"baton/bridge/httpd"
	"baton/bridge/operatorapi"
	"baton/federation/identity"
)

// mountOperator registers the operator API, for those whom an admission lets in.
func (p *program) mountOperator(mux *http.ServeMux, admit operatorapi.Admission) *operatorapi.Operator {
	o := operatorPorts{p.bound(), p}
	operator := operatorapi.New(operatorapi.Deps{
		Home: p.homeID(), Gateway: p.gateway,
		Handoffs: o, Deadlines: o, Passports: passports{p}, Inboxes: o, Mailboxes: o, Feeds: o, DeadLetters: o,
		Webhooks: o, Hooks: p.agentHooks(), Links: o, Peers: o, Bindings: o, Blocks: o, Senders: o, Tokens: o, Audit: o, Vault: o,
		Refusals: o, Steps: o, Wakes: p.relay,
		Kept: p.keyring.Kept, Refer: p.contexts().Refer, Store: p.contexts().Store, PublicURL: p.publicURL, BoundTo: p.names().Of,
		Limits:   func() bridge.Limits { return *p.linkLimits.Load() },
		CheckDID: identity.CheckDID,
		Log:      p.log, Ended: p.ended,
	})
	operator.Mount(mux, admit)
	return operator
}

// openOperator opens the socket that the operator API is served on.
func (p *program) openOperator(ctx context.Context) error {
	mountAdmin(p.socketMux, p, p.file.Metrics.Enabled, unguarded)
	p.mountOperator(p.socketMux, operatorapi.Everybody)
	if p.file.Admin.Socket == "" {
		return nil
	}
	server := httpd.New(httpd.Config{Socket: p.file.Path(p.file.Admin.Socket)}, p.socketMux, p.log) //nolint:contextcheck // each request has its own
	if err := server.Listen(ctx); err != nil {
		return err
	}
	p.socket = server
	return nil
}

// statuses returns the links of this moment with how they stand.
func (f *fleet) statuses() []operatorapi.LinkStatus {
	var all []operatorapi.LinkStatus
	for _, r := range f.current.Load().all {
		status := r.supervisor.Status()
		if status.State != bridge.LinkUp && r.duty.elsewhere() {
			status = bridge.Status{State: bridge.LinkStandby}
		}
		all = append(all, operatorapi.LinkStatus{Link: r.link, Status: status})
	}
	return all
}

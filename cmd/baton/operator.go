package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/gateway"
	"baton/bridge/httpd"
	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/passport"
)

// mountOperator registers the operator API, for those whom an admission lets in.
func (p *program) mountOperator(mux *http.ServeMux, admit operatorapi.Admission) *operatorapi.Operator {
	o := operatorPorts{p.bound(), p}
	operator := operatorapi.New(operatorapi.Deps{
		Home: p.homeID(), Gateway: p.gateway,
		Handoffs: o, Rulings: p.gateway, Deadlines: o, Passports: passports{p}, Inboxes: o, Mailboxes: o, Feeds: o, DeadLetters: o,
		Webhooks: o, Hooks: p.agentHooks(), Links: o, Peers: o, Bindings: o, Blocks: o, Senders: o, Tokens: o, Audit: o, Vault: o,
		Refusals: o, Steps: o, Wakes: p.relay,
		Signer: p.homeKeys(), Evidence: p.contexts(nil), Names: p.bindings(), PublicURL: p.publicURL, Limits: &p.linkLimits,
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

// statuses returns the links of this moment with their status.
func (p *program) statuses() []operatorapi.LinkStatus {
	var all []operatorapi.LinkStatus
	for _, s := range p.gateway.Links().Statuses() {
		all = append(all, operatorapi.LinkStatus(s))
	}
	return all
}

// top returns up to limit senders with the most steps in a time before now.
func (p *program) top(by string, since time.Duration, limit int, now time.Time) []operatorapi.Sender {
	senders := p.gateway.TopSenders(by, since, limit, now)
	all := make([]operatorapi.Sender, len(senders))
	for i, s := range senders {
		all[i] = operatorapi.Sender(s)
	}
	return all
}

// block keeps a block, and with purge ends what its source has offered and what waits of it;
// or dry reports what that would be.
func (p *program) block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, operatorapi.Purged, error) {
	b, purged, err := p.gateway.Block(ctx, b, purge, dry)
	if wrong, ok := errors.AsType[*gateway.BlockError](err); ok {
		err = &operatorapi.ProblemError{Status: http.StatusBadRequest, Code: operatorapi.CodeUsage, Detail: wrong.Why}
	}
	return b, operatorapi.Purged(purged), err
}

// passport returns the passport of a handoff as it stood when the view was read.
func (p *program) passport(ctx context.Context, view federation.View, now time.Time) (operatorapi.Document, error) {
	text, err := passport.Issue(ctx, p.record, p.serverKey(), view, now)
	problem := func(status int, detail string) error {
		return &operatorapi.ProblemError{Status: status, Code: operatorapi.CodeFailed, Detail: detail}
	}
	switch {
	case errors.Is(err, passport.ErrRemote):
		err = problem(http.StatusConflict, "its home is "+string(view.Home)+", which alone issues its passport")
	case errors.Is(err, passport.ErrTooLong):
		err = problem(http.StatusUnprocessableEntity, fmt.Sprintf("its passport has more than %d bytes", passport.MaxBytes))
	}
	return operatorapi.Document{MediaType: passport.MediaType, Content: text}, err
}

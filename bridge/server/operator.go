package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"baton/bridge/httpd"
	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/participant"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/passport"
	"baton/federation/store/backup"
)

// mountOperator registers the operator API for the callers that an admission admits.
func (s *Server) mountOperator(mux *http.ServeMux, admit operatorapi.Admission) *operatorapi.Operator {
	record, requests := s.bound(), HomeRequests{Locator: s.homes.locator, Peering: s.homes.peering}
	operator := operatorapi.New(operatorapi.Deps{
		Home: s.homeID(), Gateway: s.Gateway, Deadlines: s.Gateway, Rulings: s.Gateway, Refusals: s.Gateway, Senders: s.Gateway, Blocker: s.Gateway, Eraser: eraser{s}, Messages: s.Gateway, Links: s.Gateway.Links(),
		Handoffs: record, Inboxes: record, Feeds: record, DeadLetters: record, Webhooks: record, Blocks: record, Handles: record, Held: record, Tokens: record, Sessions: record, Audit: record, Clock: s.clock,
		Steps: record, Seen: s.Gateway.Seen, Offences: record, Mailboxes: requests, Homes: requests, Relay: s.homes,
		Bindings: operatorBindings{record, s}, Peers: operatorPeers{s}, Passports: passports{s}, Vault: vault{s}, Policy: judging{s}, Settings: operatorSettings{s}, Doctor: doctor{s}, Hooks: s.agentHooks(), Wakes: s.relay,
		Signer: s.homeKeys(), Evidence: s.contexts(nil), Names: s.bindings(), PublicURL: s.publicURL, Limits: &s.linkLimits,
		CheckDID: identity.CheckDID, AllowHeld: s.Gateway.AllowHeld,
		Document: func(ctx context.Context, did federation.DID) (federation.Document, error) {
			return s.directory.Load().Refresh(ctx, did, time.Now())
		},
		Log: s.log, Ended: s.ended,
	})
	operator.Mount(mux, admit)
	accounts := participant.AccountServer{Access: s.openAccess("mcp"), Changed: func(ctx context.Context, operation string, did federation.DID) {
		operator.Acted(ctx, "participant "+operation, string(did))
	}}
	call := contract.CallParticipant
	mux.Handle(call.Method+" "+operatorapi.Prefix+call.Path, operator.Admitted(admit, call.Scope, accounts))
	return operator
}

// openOperator opens the socket that the operator API is served on.
func (s *Server) openOperator(ctx context.Context) error {
	if s.file.Admin.Socket == "" {
		return nil
	}
	server := httpd.New(httpd.Config{Socket: s.file.Path(s.file.Admin.Socket), Panicked: s.handlerPanicked}, s.socketMux, s.log) //nolint:contextcheck // each request has its own context
	if err := server.Listen(ctx); err != nil {
		return err
	}
	s.socket = server
	return nil
}

// operatorBindings implements [operatorapi.Bindings].
type operatorBindings struct {
	boundRecord
	p *Server
}

// Configured implements [operatorapi.Bindings].
func (b operatorBindings) Configured() []federation.BoundName { return *b.p.configured.Load() }

// vault implements [operatorapi.Vault].
type vault struct{ p *Server }

// Backup implements [operatorapi.Vault].
func (v vault) Backup(ctx context.Context) (io.ReadCloser, error) {
	return backup.Stream(ctx, BackupSource(v.p.file))
}

// Rotate implements [operatorapi.Vault].
func (v vault) Rotate(ctx context.Context, name string, overlap time.Duration, now time.Time) (contract.Key, error) {
	return v.p.rotate(ctx, name, overlap, now)
}

// Keys implements [operatorapi.Vault].
func (v vault) Keys(ctx context.Context, now time.Time) ([]contract.Key, error) {
	keys, err := KeyFolder(v.p.file).List(ctx)
	var shown []contract.Key
	for _, key := range keys {
		shown = append(shown, ShowKey(key, v.p.file, now))
	}
	return shown, err
}

// passport returns the passport of a handoff as it stood when the view was read.
func (s *Server) passport(ctx context.Context, view federation.View, now time.Time) (operatorapi.Document, error) {
	text, err := passport.Issue(ctx, s.Record, s.serverKey(), view, now)
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

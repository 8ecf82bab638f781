package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/page"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/httpd"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/backup"
	"github.com/baton-gateway/baton/federation/store/engine"
)

func (s *Server) mountOperator(mux *http.ServeMux, admit admin.Admission) *admin.Operator {
	operator := admin.New(admin.Deps{
		Home: s.homeID(), Record: s.bound(), Gateway: s.Gateway, Links: s.Gateway.Links(), Server: s, Hooks: s.agentHooks(), PubSub: s.relay,
		Signer: s.homeKeys(), Evidence: s.contexts(nil), Names: s.bindings(), PublicURL: s.publicURL, Limits: &s.linkLimits,
		CheckDID: identity.CheckDID,
		Document: func(ctx context.Context, did federation.DID) (federation.Document, error) {
			return s.directory.Load().Refresh(ctx, did, time.Now())
		},
		Refused: s.proofs.Refused,
		Log:     s.log, Ended: s.ended,
	})
	operator.Mount(mux, admit)
	accounts := participant.AccountServer{Access: s.openAccess("mcp"), Caller: participant.CallerInPath, Changed: func(ctx context.Context, operation string, did federation.DID) {
		operator.Acted(ctx, "participant "+operation, string(did))
	}}
	call := admin.CallParticipant
	mux.Handle(call.Method+" "+admin.Prefix+call.Path, operator.Admitted(admit, call.Scope, accounts))
	return operator
}

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

// Backup returns a tar file of the current record and keys. It blocks until everything is copied.
// The caller closes it.
func (s *Server) Backup(ctx context.Context) (io.ReadCloser, error) {
	return backup.Stream(ctx, BackupSource(s.file))
}

// Passport returns the passport of a handoff in the state of the view. It blocks on the record and
// the signer. Its error may be a [*bridge.ProblemError].
func (s *Server) Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error) {
	text, err := passport.Issue(ctx, s.Record, s.serverKey(), view, now)
	problem := func(status int, detail string) error {
		return &admin.ProblemError{Status: status, Code: admin.CodeFailed, Detail: detail}
	}
	switch {
	case errors.Is(err, passport.ErrRemote):
		err = problem(http.StatusConflict, "its home is "+string(view.Home)+", and only that home issues its passport")
	case errors.Is(err, passport.ErrTooLong):
		err = problem(http.StatusUnprocessableEntity, fmt.Sprintf("its passport has more than %d bytes", passport.MaxBytes))
	}
	return bridge.Document{MediaType: passport.MediaType, Content: text}, err
}

// mountAdmin registers the operator API and the probes on the socket and on admin.listen. On
// admin.listen, it also registers the operator page, and the API requires a token. Profiles and
// metrics there require a token except on loopback; with admin.debug = "token", profiles always do.
func (s *Server) mountAdmin() {
	s.mountOperator(s.socketMux, admin.Everybody)
	s.mountProbes(s.socketMux, nil, nil)
	check := admin.NewTokenCheck(s.Record.Operators)
	operator := s.mountOperator(s.adminMux, check.Admit)
	ui := page.New(page.Deps{Home: s.homeID(), Mount: operator.Mount, Tokens: s.Record.Operators, Check: check, Log: s.log, Ended: s.ended})
	ui.Mount(s.adminMux)
	withToken := func(h http.Handler) http.Handler { return operator.Admitted(check.Admit, federation.ReadScope, h) }
	guard, guardDebug := withToken, withToken
	if s.admin == nil || admin.IsLoopback(s.admin.Addr()) {
		guard = nil
		if s.file.Admin.Debug != "token" {
			guardDebug = nil
		}
	}
	s.mountProbes(s.adminMux, guard, guardDebug)
}

func (s *Server) mountProbes(mux *http.ServeMux, guard, guardDebug func(http.Handler) http.Handler) {
	probes := admin.Probes{Ready: s.readiness, HomesDown: s.Gateway.Links().HomesDown, Guard: guard, GuardDebug: guardDebug, Standing: func(ctx context.Context) admin.Standing {
		return admin.NewStanding(ctx, s.readiness(ctx), s.parts(), s.Gateway.Links().Statuses())
	}}
	if s.file.Metrics.Enabled {
		probes.Metrics = promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})
	}
	probes.Mount(mux)
}

// readiness does not depend on other operators' homes and registries.
func (s *Server) readiness(ctx context.Context) admin.Readiness {
	return admin.CheckReadiness(ctx, s.parts(), s.Gateway.Links().Down())
}

// Ready reports whether the gateway is ready.
func (s *Server) Ready(ctx context.Context) bool { return s.readiness(ctx).Ready }

func (s *Server) parts() []admin.Part {
	parts := []admin.Part{
		{Name: "record", Check: s.Record.Ready},
		{Name: "disk", Check: func(context.Context) error { return engine.CheckRoom(s.file.Path(".")) }},
		{Name: "relay", Check: func(context.Context) error { return s.relay.Ready() }},
	}
	if s.hub != nil {
		parts = append(parts, admin.Part{Name: "hub", Check: func(context.Context) error { return s.hub.Ready() }})
	}
	return parts
}

// Examine runs all checks. With online it also offers a canary to each peer. It blocks on the disk
// and the network, for less than 30 seconds.
func (s *Server) Examine(ctx context.Context, online bool) []admin.Diagnosis {
	file := s.file
	c := admin.Checkup{
		Home: s.homeID(), Key: string(identity.KeyDID(s.serverKey().Public)),
		Folder: file.Path("."), RecordFiles: recordFiles(file), ClockDoubt: s.clock.Doubt(), Secrets: file.SecretFiles(), Keys: KeyFolder(file).Dir, Issued: file.Path(acmeFolder),
		Record: s.Record, Relay: s.relay.Ready, Links: s.Gateway.Links().Statuses(), Peers: s.Peers(),
		Clocks: s.homes.clocks, Fetch: s.client.Get, Canary: s.homes.canary,
	}
	c.Unfinished, c.UnfinishedErr = unfinishedErasures(file)
	c.Certificate, c.CertificateProblem = s.servedLeaf(), s.certificates.Problem()
	if s.authority != nil {
		c.Authority = file.ACME.Directory
	}
	if s.public != nil && len(file.HTTP.TrustedProxies) > 0 {
		c.Proxies = new(s.public.Unforwarded())
	}
	if s.hub != nil {
		c.Hub = func() error { return s.hub.Away(ctx) }
	}
	return c.Examine(ctx, online)
}

// Ends returns the verb and time of the step that will end an inactive handoff, or "" if there is
// none.
func (g *Gateway) Ends(view federation.View) (federation.Verb, time.Time) { return g.Home().Ends(view) }

// Refused counts the refusal of an operator's request.
func (g *Gateway) Refused(code federation.RefusalCode) {
	g.deps.Metrics.Refusals.WithLabelValues(OperatorLink, code.Upper()).Inc()
}

// AddHome checks another home, stores it, and sends it a canary; with dry it only checks. Private
// addresses need the operator's permission. AddHome blocks until the canary is completed, for at
// most 30 seconds. The error of AddHome, RemoveHome or MoveInbox may be a [*bridge.ProblemError].
func (s *Server) AddHome(ctx context.Context, url string, allowPrivate, dry bool) (federation.AddedHome, error) {
	added, err := s.homes.peering.Add(ctx, peering.Request{URL: url, AllowPrivate: allowPrivate, DryRun: dry})
	return federation.AddedHome{Home: added.Home, Findings: added.Findings, Canary: added.Canary}, problemOf(err)
}

// RemoveHome removes a home that AddHome added, or with dry checks whether it can.
func (s *Server) RemoveHome(ctx context.Context, name string, dry bool) (federation.KnownHome, error) {
	gone, err := s.homes.peering.Remove(ctx, name, dry)
	return gone, problemOf(err)
}

// MoveInbox moves the mailbox of a DID and its unread entries to another home, or with dry counts
// them. It blocks on the network.
func (s *Server) MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (federation.MovedInbox, error) {
	moved, err := s.locator.Move(ctx, did, to, dry, time.Now)
	return moved, problemOf(err)
}

// MailboxRoutes returns the known locations of the mailboxes of the parties of a handoff.
func (s *Server) MailboxRoutes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error) {
	return s.locator.OfParties(ctx, v)
}

func problemOf(err error) error {
	if unknown, ok := errors.AsType[*routing.PeerError](err); ok {
		return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: unknown.Error()}
	}
	if elsewhere, ok := errors.AsType[*routing.ElsewhereError](err); ok {
		return &bridge.ProblemError{Status: http.StatusConflict, Code: bridge.CodeFailed, Detail: elsewhere.Error()}
	}
	refused, ok := errors.AsType[*peering.RequestError](err)
	if !ok {
		return err
	}
	problem := &bridge.ProblemError{Detail: refused.Detail}
	switch refused.Reason {
	case peering.Malformed:
		problem.Status, problem.Code = http.StatusBadRequest, bridge.CodeUsage
	case peering.Unknown:
		problem.Status, problem.Code = http.StatusNotFound, bridge.CodeNotFound
	case peering.Conflict:
		problem.Status, problem.Code = http.StatusConflict, bridge.CodeFailed
	case peering.Unreachable:
		problem.Status, problem.Code = http.StatusServiceUnavailable, bridge.CodeUnavailable
	case peering.Unreadable:
		problem.Status, problem.Code = http.StatusBadGateway, bridge.CodeFailed
	}
	return problem
}

// ClockDoubt returns the reason why the clock is unconfirmed, or "".
func (s *Server) ClockDoubt() string { return s.clock.Doubt() }

// AcceptClock confirms the clock, and reports whether it was in doubt.
func (s *Server) AcceptClock(by string) bool { return s.clock.Accept(by) }

// homePolicy returns the policy of a configuration, and adds mistakes in its rules to the mistakes
// of the file. The links are as for [boundNames].
func homePolicy(file *configs.File, links map[string]bool) home.Policy {
	var peers []string
	if links != nil {
		peers = append(slices.Collect(maps.Keys(links)), OperatorLink)
	}
	policy := home.Policy{Require: home.Requirement(file.Policy.Require), OpenOffers: home.OfferPolicy(file.Policy.OpenOffers)}
	for _, t := range file.Tables("policy.rules") {
		table := configs.Rule{Require: string(home.RequireSigned)}
		t.Decode(&table)
		text := home.RuleText{Verbs: table.Verbs, Peers: table.Peers, Recipients: table.Recipients, Senders: table.Senders}
		rule, mistakes := home.ParseRule(text, home.Requirement(table.Require), lifecycle.Shipped(), peers)
		for _, m := range mistakes {
			t.Mistake(m.Key, m.Why)
		}
		policy.Rules = append(policy.Rules, rule)
	}
	return policy
}

// Policy returns the current rules and limits.
func (s *Server) Policy() admin.Policy {
	s.changing.Lock() // reading a table marks it as read
	defer s.changing.Unlock()
	return policyOf(s.limited)
}

func policyOf(file *configs.File) admin.Policy {
	var policy admin.Policy
	for i, t := range file.Tables("policy.rules") {
		table := configs.Rule{Require: string(home.RequireSigned)}
		t.Decode(&table)
		rule := ruleOf(table)
		rule.File, rule.Line = file.Name(), file.Line(fmt.Sprintf("policy.rules[%d]", i))
		policy.Rules = append(policy.Rules, rule)
	}
	last := ruleOf(configs.Rule{Require: file.Policy.Require})
	last.File, last.Line = lineOf(file, "policy.require")
	policy.Rules = append(policy.Rules, last)
	limits := reflect.ValueOf(file.Limits)
	for field, value := range limits.Fields() {
		key := field.Tag.Get("toml")
		limit := admin.PolicyLimit{Key: key, Value: fmt.Sprint(value.Interface())}
		limit.File, limit.Line = lineOf(file, "limits."+key)
		policy.Limits = append(policy.Limits, limit)
	}
	return policy
}

func lineOf(file *configs.File, key string) (name string, line int) {
	if line = file.Line(key); line == 0 {
		return "", 0
	}
	return file.Name(), line
}

func ruleOf(table configs.Rule) admin.PolicyRule {
	list := func(items []string) []string { return append([]string{}, items...) }
	return admin.PolicyRule{
		Verbs: list(table.Verbs), Peers: list(table.Peers), Recipients: list(table.Recipients), Senders: list(table.Senders), Require: table.Require,
	}
}

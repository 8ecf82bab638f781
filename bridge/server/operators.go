package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/mailbox"
	"baton/federation/peering"
)

// Ends returns the step with which the home ends an inactive handoff, and its time; "" for a handoff that
// the home does not end.
func (g *Gateway) Ends(view federation.View) (federation.Verb, time.Time) { return g.Home().Ends(view) }

// Refused counts the refusal of a request of an operator.
func (g *Gateway) Refused(code federation.RefusalCode) {
	g.deps.Metrics.Refusals.WithLabelValues(OperatorLink, code.Upper()).Inc()
}

// HomeRequests carries out the requests of operators about other homes. Its errors are
// [*bridge.ProblemError], or come from the record and the network.
type HomeRequests struct {
	Locator *mailbox.Locator
	Peering *peering.Peering
}

// AddHome inspects another home, keeps it, and sends it a canary, unless dry asks for the
// inspection alone. A private address is inspected where the operator allows it. AddHome blocks
// until the canary is back, some thirty seconds at most.
func (r HomeRequests) AddHome(ctx context.Context, url string, allowPrivate, dry bool) (federation.AddedHome, error) {
	added, err := r.Peering.Add(ctx, peering.Request{URL: url, AllowPrivate: allowPrivate, DryRun: dry})
	return federation.AddedHome{Home: added.Home, Findings: added.Findings, Canary: added.Canary}, problemOf(err)
}

// RemoveHome removes a home that AddHome added, or with dry checks whether it can.
func (r HomeRequests) RemoveHome(ctx context.Context, name string, dry bool) (federation.KnownHome, error) {
	gone, err := r.Peering.Remove(ctx, name, dry)
	return gone, problemOf(err)
}

// MoveInbox moves the mailbox of a DID and its unread entries to another home, or with dry counts
// them. It blocks on the network.
func (r HomeRequests) MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (federation.MovedInbox, error) {
	moved, err := r.Locator.Move(ctx, did, to, dry, time.Now)
	return moved, problemOf(err)
}

// Routes returns the known locations of the mailboxes of the parties of a handoff.
func (r HomeRequests) Routes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error) {
	return r.Locator.OfParties(ctx, v)
}

// problemOf returns an error about other homes as operators read it.
func problemOf(err error) error {
	if unknown, ok := errors.AsType[*mailbox.PeerError](err); ok {
		return &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeNotFound, Detail: unknown.Error()}
	}
	if elsewhere, ok := errors.AsType[*mailbox.ElsewhereError](err); ok {
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

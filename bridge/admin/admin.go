// Package admin is the operator API, /operator/v1: JSON over HTTP. The commands of the program use
// only its routes, through package client. Each route is a typed value, such as [ListHandoffs];
// openapi.yaml is generated from these values.
//
// An [Operator] is mounted with an [Admission], which admits callers to the scope of a route. The
// scope is read for routes that change nothing, admin for keys, tokens, peers and bindings, and
// operate for the rest. The routes may be called concurrently.
package admin

//go:generate go test . -run ^TestContractMatchesTheRoutes$ -update

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// network is the label of operators in metrics and arrivals, and the link of their steps.
const network = "operator"

// Gateway judges the steps of operators and looks up participants. It is the Gateway of package
// server, which documents the methods.
type Gateway interface {
	bridge.Gateway
	AwaitRuling(ctx context.Context, ev federation.Event) (federation.Entry, error)
	EndOrphan(ctx context.Context, id federation.HandoffID, reason string) (federation.View, error)
	Ends(view federation.View) (federation.Verb, time.Time)
	About(ctx context.Context, id federation.HandoffID) ([]federation.Text, error)
	Block(ctx context.Context, b federation.Block, purge, dry bool) (federation.Block, bridge.Purged, error)
	Unblock(ctx context.Context, b federation.Block, dry bool) error
	TopSenders(by string, since time.Duration, limit int, now time.Time) []bridge.Sender
	Seen(ctx context.Context, did federation.DID) (bool, error)
	AllowHeld(ctx context.Context, id int64) error
	Refused(code federation.RefusalCode)
}

// Links are the links of the gateway: the LinkSet of package server.
type Links interface {
	Statuses() []bridge.LinkStatus
	Dial(name string) error
	Disconnect(name string) error
	Connect(name string) error
}

// Server is the process around the gateway: the Server of package server.
type Server interface {
	Reload(ctx context.Context, dry bool) (Reloaded, error)
	SetLogLevel(pkg, level string, dry bool) (LogLevels, error)
	Policy() Policy
	Examine(ctx context.Context, online bool) []Diagnosis
	Status(ctx context.Context) Status
	ClockDoubt() string
	AcceptClock(by string) bool

	Backup(ctx context.Context) (io.ReadCloser, error)
	ListKeys(ctx context.Context, now time.Time) ([]Key, error)
	RotateKey(ctx context.Context, name string, overlap time.Duration, now time.Time) (Key, error)
	Passport(ctx context.Context, view federation.View, now time.Time) (bridge.Document, error)
	Erase(ctx context.Context, did federation.DID, dry bool) (federation.Erasing, error)
	RecordCopies() ([]string, error)

	Peers() []Peer
	SetPeerMode(ctx context.Context, m federation.PeerMode, dry bool) error
	ComparePeer(ctx context.Context, home federation.HomeID, dry bool) (Compared, error)
	AddHome(ctx context.Context, url string, allowPrivate, dry bool) (federation.AddedHome, error)
	RemoveHome(ctx context.Context, name string, dry bool) (federation.KnownHome, error)
	MoveInbox(ctx context.Context, did federation.DID, to federation.HomeID, dry bool) (federation.MovedInbox, error)
	MailboxRoutes(ctx context.Context, v federation.View) ([]federation.MailboxLocation, error)
	CheckRelay(ctx context.Context) []federation.Finding
}

// Deps are the dependencies of the operator API.
type Deps struct {
	Home    federation.HomeID
	Record  registry.Bound
	Gateway Gateway
	Links   Links
	Server  Server
	Hooks   bridge.Webhooks // may be nil
	PubSub  bridge.PubSub

	// These are as in [bridge.Ports]; Names are its Bindings.
	Signer    bridge.Signer
	Evidence  bridge.Evidence
	Names     bridge.Bindings
	PublicURL string
	Limits    bridge.LimitSource
	// Document returns the document of a DID. It fetches the document again within the bounds of
	// the directory.
	Document func(ctx context.Context, did federation.DID) (federation.Document, error)
	// Refused is [identity.Logins.Refused].
	Refused func(did federation.DID) identity.RefusedLogin
	// CheckDID returns the reason why no party can ever prove a DID, or nil.
	CheckDID func(did federation.DID) error

	Log *slog.Logger
	// Ended is closed when the gateway stops, which ends all watches.
	Ended <-chan struct{}
}

// Operator is the operator API.
type Operator struct{ deps Deps }

// New returns the operator API of a gateway.
func New(d Deps) *Operator { return &Operator{deps: d} }

// act records the change of an operator in the record and in the log. It runs after the change
// and cannot undo it. If the record is unavailable, only the log has the change.
func (o *Operator) act(ctx context.Context, what, subject, reason string) {
	change := federation.Change{At: time.Now(), Actor: callerOf(ctx).actor, What: what, Subject: subject, Reason: reason}
	if err := o.deps.Record.Note(context.WithoutCancel(ctx), change); err != nil {
		o.deps.Log.LogAttrs(ctx, slog.LevelError, "change not in the record", slog.String("network", network),
			slog.String("what", what), slog.Any("err", err))
	}
	o.deps.Log.LogAttrs(ctx, slog.LevelInfo, "operator acted", slog.String("network", network),
		slog.String("what", what), slog.String("subject", subject), slog.String("actor", change.Actor), slog.String("reason", reason))
}

// Acted records a change made for an admitted operator outside this API.
func (o *Operator) Acted(ctx context.Context, what, subject string) { o.act(ctx, what, subject, "") }

// A dry run is not recorded.
func (o *Operator) acted(ctx context.Context, what, subject string, ask Act, changed int) Acted {
	if !ask.DryRun {
		o.act(ctx, what, subject, ask.Reason)
	}
	return Acted{Changed: changed, DryRun: ask.DryRun}
}

func parseDID(name, text string) (federation.DID, error) {
	did, err := federation.ParseDID(text)
	if err != nil {
		return "", usage(name + ": " + err.Error())
	}
	return did, nil
}

func errNone(what string) error {
	return &ProblemError{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "there is no " + what}
}

func isNotFound(err error) bool { return errors.Is(err, federation.ErrNotFound) }

// Problems and their codes come from package bridge.
const (
	CodeUsage        = bridge.CodeUsage
	CodeNotFound     = bridge.CodeNotFound
	CodeUnauthorized = bridge.CodeUnauthorized
	CodeForbidden    = bridge.CodeForbidden
	CodeUnavailable  = bridge.CodeUnavailable
	CodeFailed       = bridge.CodeFailed
)

type (
	// ProblemError is the error document of the API.
	ProblemError = bridge.ProblemError
	// Document is an answer served byte for byte.
	Document = bridge.Document
)

func usage(detail string) error { return bridge.UsageProblem(detail) }

func (o *Operator) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := bridge.ProblemOf(err)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		o.deps.Gateway.Refused(refused.Code)
	}
	if p.Status >= http.StatusInternalServerError {
		o.deps.Log.LogAttrs(r.Context(), slog.LevelError, "operator request not answered", slog.String("network", network),
			slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	text, err := json.Marshal(p)
	if err != nil {
		p.Status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if p.Code == CodeUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	bridge.RetryHeader(w.Header(), p.Status, p.RetryAfter)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

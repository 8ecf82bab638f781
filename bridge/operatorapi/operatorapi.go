// Package operatorapi is the operator API, /operator/v1: what operators see of a gateway
// and what they may do in it, as JSON over HTTP. The commands of the program have no
// other way in.
//
//	GET  handoffs                    list; did state kind channel capability since
//	GET  handoffs/{id}               one, with its steps
//	GET  handoffs/{id}/passport      the file that proves one to anybody
//	GET  events/{id}/explain         one step: why it holds, its way, what is next
//	POST handoffs                    offer
//	POST handoffs/{id}/{verb}        accept decline claim progress complete fail cancel
//	GET  place                       where an offer would be written, for whoever signs it
//	GET  inboxes/{did}               what reached a DID; looking changes nothing
//	POST inboxes/{did}/ack           what a DID has read
//	POST inboxes/{did}/move          give a DID and what waits for it to another home
//	GET  links, links/{name}         links
//	GET  feeds                       what is still to be delivered; link peer handoff older
//	GET  feeds/shape                 the same by destination and age
//	POST feeds/{name}/{verb}         hold or release a link or another registry
//	POST feeds/{id}/{verb}           retry, fail or drop what waits of an event; link peer
//	GET  dead, dead/{id}             dead letters; reason peer
//	POST dead/{id}/{verb}            replay or drop one, or with "all" every one
//	GET  webhooks, webhooks/{id}     addresses that what reaches agents is posted to; did
//	POST webhooks/{id}/redeliver     post one thing again, or all that was not delivered; of did
//	POST webhooks/{id}/enable        have one called again whose address said that it is gone; did
//	GET  peers, peers/{name}         other registries and homes
//	POST peers                       look at another home, add it, and offer it a canary
//	POST peers/{name}/mode           allow, limit, hold or block one
//	DELETE peers/{name}              forget a home that an operator added
//	GET  relay                       how the server stands that homes meet at
//	GET  audit                       what operators changed; since actor
//	GET  bindings                    names that stand for DIDs
//	PUT  bindings/{network}/{name}   bind
//	DELETE bindings/{network}/{name} unbind
//	GET  top                         senders with the most steps; by since
//	GET  blocks                      sources that nothing is taken from
//	POST blocks                      block a source; purge what waits of it
//	DELETE blocks/{what}             end a block
//	POST keys/{name}/rotate          give the gateway another key
//	GET  tokens                      operator tokens, without the tokens themselves
//	POST tokens                      make one
//	POST tokens/{name}/revoke        end one
//	POST blobs                       store what a step is to refer to; owner
//	POST backup                      record and keys, as a tar file
//
// A list takes limit (50, at most 500) and cursor, and answers
// {"items":[...],"next_cursor":"..."}. With watch it answers JSON lines, one item
// each, until the client goes: what there is, and then what changes. What changes
// something takes a reason, for the audit log, and mostly dry_run, with which it answers
// alike and changes nothing. Errors are
// problem documents (RFC 9457) with the members code, detail and retry_after.
//
// Who may ask is decided by the [Admission] with which the [Operator] is mounted, for
// the scope that a route needs: read for what only looks, admin for keys, tokens, peers
// and bindings, operate for the rest. It may be called concurrently.
package operatorapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/stepbuilder"
	"baton/federation"
)

// Prefix is the path under which everything is.
const Prefix = "/operator/v1/"

// network is the label of operators in metrics and arrivals, and the link that
// their steps come from.
const network = "operator"

// maxBodyBytes bounds a request: a context of 4 KiB, a signed document with the
// same again, and the rest.
const maxBodyBytes = 64 << 10

// Deps is what the operator API works with.
type Deps struct {
	Home    federation.HomeID
	Gateway bridge.Gateway

	Handoffs    Handoffs
	Deadlines   Deadlines
	Passports   Passports
	Inboxes     Inboxes
	Mailboxes   Mailboxes
	Feeds       Feeds
	DeadLetters DeadLetters
	Webhooks    Webhooks
	Hooks       bridge.Hooks // creates webhooks; nil where the gateway has none
	Links       Links
	Peers       Peers
	Bindings    Bindings
	Blocks      Blocks
	Senders     Senders
	Tokens      Tokens
	Audit       Audit
	Vault       Vault
	Refusals    Refusals
	Steps       stepbuilder.Record
	Wakes       bridge.Wakes

	// Kept, Refer, Store, PublicURL, BoundTo and Limits are those of [bridge.Ports].
	Kept      func(name string) federation.SigningKey
	Refer     func(ctx context.Context, ev federation.Event) (federation.Event, error)
	Store     func(ctx context.Context, owner federation.DID, content []byte) (federation.Blob, error)
	PublicURL string
	BoundTo   func(ctx context.Context, did federation.DID) ([]federation.BoundName, error)
	Limits    func() bridge.Limits
	// CheckDID returns why no party can ever prove a DID; nil accepts each.
	CheckDID func(did federation.DID) error

	Log *slog.Logger
	// Ended is closed when the gateway stops, which ends all watching.
	Ended <-chan struct{}
}

// LinkStatus is a link with how it stands.
type LinkStatus struct {
	Link   bridge.Link
	Status bridge.Status
}

// Operator is the operator API. Make one with [New].
type Operator struct{ deps Deps }

// New returns the operator API of a gateway.
func New(d Deps) *Operator { return &Operator{deps: d} }

// answer is a 2xx: one JSON document.
type answer struct {
	status int // 0 is 200
	body   any
}

// endpoint answers one request, or says why not.
type endpoint func(r *http.Request) (answer, error)

// serve writes what an endpoint returned.
func (o *Operator) serve(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := e(r)
		if err != nil {
			o.tell(w, r, err)
			return
		}
		o.write(w, r, a)
	})
}

func (o *Operator) write(w http.ResponseWriter, r *http.Request, a answer) {
	text, err := json.Marshal(a.body)
	if err != nil {
		o.tell(w, r, fmt.Errorf("write answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(append(text, '\n')) // the client is gone
}

// readBody reads the one JSON object of a request, strictly.
func readBody(r *http.Request, into any) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return usage("the body ended too early")
	case len(text) > maxBodyBytes:
		return usage(fmt.Sprintf("a body is at most %d bytes", maxBodyBytes))
	}
	if err := federation.ExactJSON(text); err != nil {
		return usage("the body is not acceptable JSON: " + err.Error())
	}
	if err := strict(text, into); err != nil {
		return usage("the body: " + err.Error())
	}
	return nil
}

// act notes what an operator changed, and who that was, in the record and in the log.
// It comes after the change, which it cannot undo: where the record does not take it,
// the log has it alone.
func (o *Operator) act(r *http.Request, what, subject, reason string) {
	change := federation.Change{At: time.Now(), Actor: callerOf(r).actor, What: what, Subject: subject, Reason: reason}
	if err := o.deps.Audit.Note(context.WithoutCancel(r.Context()), change); err != nil {
		o.deps.Log.LogAttrs(r.Context(), slog.LevelError, "change not in the record", slog.String("network", network),
			slog.String("what", what), slog.Any("err", err))
	}
	o.deps.Log.LogAttrs(r.Context(), slog.LevelInfo, "operator acted", slog.String("network", network),
		slog.String("what", what), slog.String("subject", subject), slog.String("actor", change.Actor), slog.String("reason", reason))
}

// acted notes a change and answers with how many things it was made to. A dry run is
// answered alike, and not noted.
func (o *Operator) acted(r *http.Request, what, subject string, ask Act, changed int) answer {
	if !ask.DryRun {
		o.act(r, what, subject, ask.Reason)
	}
	return answer{body: Acted{Changed: changed, DryRun: ask.DryRun}}
}

// parseDID reads a DID of a request.
func parseDID(name, text string) (federation.DID, error) {
	did, err := federation.ParseDID(text)
	if err != nil {
		return "", usage(name + ": " + err.Error())
	}
	return did, nil
}

// errNone is a thing of a request that is not there.
func errNone(what string) error {
	return &ProblemError{Status: http.StatusNotFound, Code: CodeNotFound, Detail: "there is no " + what}
}

func isNotFound(err error) bool { return errors.Is(err, federation.ErrNotFound) }

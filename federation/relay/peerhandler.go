package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// StepsPath is the path of POST requests with steps.
const StepsPath federation.URLPath = "/fed/v1/events"

// laterAfter must be whole seconds.
const laterAfter = time.Minute

// PeerHandler answers other homes: steps, digests, moves and mailbox queries. It is safe for concurrent
// use.
type PeerHandler struct {
	Deps Deps
	// Peer returns a known home, or nil.
	Peer func(home federation.HomeID) *Peer
	// PublicURL is this home's address without a path. ClockSkew bounds the difference between a signed
	// ID and the local clock.
	PublicURL string
	ClockSkew func() time.Duration
	// Documents serves this home's public documents through a hub. It is nil without a hub.
	Documents http.Handler
	reports   reportLimiter
}

// Codes of temporary problems: the sender may repeat the message.
const (
	codeLater        = "later"
	codeUnverifiable = "signature-unverifiable"
)

type problem struct {
	status int
	code   string
	err    error
}

// Mount registers the routes.
func (h *PeerHandler) Mount(mux *http.ServeMux) {
	mux.HandleFunc("POST "+string(StepsPath), h.serveSteps)
	mux.HandleFunc("GET "+string(ResidentPath)+"/{did}", h.serveResident)
	mux.HandleFunc("GET "+string(federation.ProfilePath), h.serveProfile)
}

func (h *PeerHandler) serveSteps(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBatchBytes))
	if err != nil {
		h.refuse(w, r, problem{status: http.StatusRequestEntityTooLarge, code: "too-large", err: err})
		return
	}
	answer, p := h.process(context.WithoutCancel(r.Context()), "", NewEnvelope(body, r.Header))
	if p != nil {
		h.refuse(w, r, *p)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(federation.SignatureHeader, answer.Signature)
	_, _ = w.Write(answer.Body) // the other home is gone
}

// The error is only logged.
func (h *PeerHandler) refuse(w http.ResponseWriter, r *http.Request, p problem) {
	h.report(r.Context(), "", p)
	w.Header().Set("Content-Type", "application/json")
	if p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(laterAfter.Seconds())))
	}
	w.WriteHeader(p.status)
	_, _ = fmt.Fprintf(w, `{"error":%q}`, p.code) // the other home is gone
}

type question struct {
	from   federation.HomeID
	sent   time.Time
	steps  int
	answer func(ctx context.Context, of *Peer, path []federation.HomeID) (any, error)
}

func (h *PeerHandler) read(body []byte) (question, error) {
	var header struct {
		Type string `json:"type"`
	}
	if err := federation.DecodeJSON(body, &header); err != nil {
		return question{}, err
	}
	if header.Type == typeDigest {
		asked, err := parseDigest(body, h.Deps.Home)
		return question{from: asked.From, sent: asked.Sent, answer: func(ctx context.Context, peer *Peer, _ []federation.HomeID) (any, error) {
			return peer.compareWith(ctx, asked, body)
		}}, err
	}
	if header.Type == typeMove {
		asked, err := parseMove(body, h.Deps.Home)
		return question{from: asked.From, sent: asked.Sent, answer: func(ctx context.Context, peer *Peer, _ []federation.HomeID) (any, error) {
			return peer.takeOver(ctx, asked, body)
		}}, err
	}
	b, err := parseBatch(body, h.Deps.Home)
	return question{from: b.From, sent: b.Sent, steps: len(b.Items), answer: func(ctx context.Context, peer *Peer, path []federation.HomeID) (any, error) {
		return answer{answerHeading: h.Deps.answers(b.heading, typeResults, body), Results: peer.judge(ctx, path, b.Items)}, nil
	}}, err
}

// A request in a home's stream must be from that home; from is "" over HTTPS.
func (h *PeerHandler) process(ctx context.Context, from federation.HomeID, e Envelope) (Envelope, *problem) {
	asked, err := h.read(e.Body)
	if err != nil {
		return Envelope{}, &problem{status: http.StatusBadRequest, code: "malformed", err: err}
	}
	path, err := e.through(asked.from)
	if err != nil {
		return Envelope{}, &problem{status: http.StatusBadRequest, code: "malformed", err: err}
	}
	if from != "" && asked.from != from {
		return Envelope{}, &problem{status: http.StatusForbidden, code: "unknown-home", err: fmt.Errorf("it is from %q", asked.from)}
	}
	peer := h.Peer(asked.from)
	if peer == nil || peer.Mode() == Block {
		return Envelope{}, &problem{status: http.StatusForbidden, code: "unknown-home", err: fmt.Errorf("%q is no peer", asked.from)}
	}
	verdict, err := h.Deps.Signer.Verify(ctx, asked.from, h.Deps.Now(), e.Body, e.Signature)
	switch {
	case verdict == federation.Invalid:
		return Envelope{}, &problem{status: http.StatusUnauthorized, code: "signature-invalid", err: err}
	case err != nil:
		return Envelope{}, &problem{status: http.StatusServiceUnavailable, code: codeUnverifiable, err: err}
	}
	peer.noteHeard()
	peer.history.started(bootOf(e.Body))
	if from == "" { // not through a hub, which may store messages for any time
		peer.noteSkew(ctx, h.Deps.Now().Sub(asked.sent))
	}
	if !peer.limiter.admits(peer.Mode(), asked.steps, h.Deps.Now()) {
		return Envelope{}, &problem{status: http.StatusServiceUnavailable, code: codeLater, err: errHeld}
	}
	if h.Deps.Traces != nil && e.Trace != "" {
		ctx = h.Deps.Traces.Join(ctx, e.Trace)
	}
	answer, err := asked.answer(ctx, peer, path)
	if err != nil {
		return Envelope{}, &problem{status: http.StatusServiceUnavailable, code: codeLater, err: err}
	}
	return h.sign(ctx, answer)
}

func (h *PeerHandler) sign(ctx context.Context, document any) (answer Envelope, p *problem) {
	var err error
	if answer.Body, err = json.Marshal(document); err == nil {
		answer.Signature, err = h.Deps.Signer.Sign(ctx, answer.Body)
	}
	if err != nil {
		return Envelope{}, &problem{status: http.StatusServiceUnavailable, code: codeLater, err: err}
	}
	return answer, nil
}

// Items of one handoff are judged in order, and all handoffs concurrently, so that a batch needs few
// commits.
func (p *Peer) judge(ctx context.Context, path []federation.HomeID, items []item) []result {
	inOrder, results := map[federation.HandoffID][]func(){}, make([]result, len(items))
	for i, it := range items {
		r := &results[i]
		*r = result{Event: it.Step.ID, Digest: digestOf(it.Step.Document)}
		order, judge, err := p.open(ctx, it, path, r)
		if err == nil {
			err = p.deps.checkPath(it.Step.ID, path)
		}
		if err != nil {
			r.fail(err)
			continue
		}
		inOrder[order] = append(inOrder[order], judge)
	}
	var handoffs fault.Group
	for _, each := range inOrder {
		handoffs.Go(func() {
			for _, judge := range each {
				judge()
			}
		})
	}
	handoffs.Wait()
	return results
}

// The order is the ID whose items are judged in order.
func (p *Peer) open(ctx context.Context, it item, path []federation.HomeID, r *result) (order federation.HandoffID, judge func(), err error) {
	t, isText, err := p.deps.readText(it.Step)
	if err != nil || isText {
		t.Arrival.Path = path
		return t.Order, func() { p.judgeText(ctx, t, it, r) }, err
	}
	ev, err := it.Step.decode(p.deps.Read)
	ev.Arrival.Path = path
	if it.Ruling != nil {
		return ev.Handoff, func() { p.judgeRuled(ctx, ev, it, r) }, err
	}
	return ev.Handoff, func() { p.judgeAsked(ctx, ev, it, r) }, err
}

func (p *Peer) takeRuled(ctx context.Context, it item) result {
	r := result{Event: it.Step.ID, Digest: digestOf(it.Step.Document)}
	ev, err := it.Step.decode(p.deps.Read)
	if err == nil && it.Ruling == nil {
		err = federation.Refuse(ev, federation.MissingRequirement, "a ruling")
	}
	if err != nil {
		r.fail(err)
		return r
	}
	ev.Arrival.Path = []federation.HomeID{p.cfg.Home}
	p.judgeRuled(ctx, ev, it, &r)
	return r
}

// The ruling is from the other home, from this home before a restore, or from a third home whose steps
// the other home may forward.
func (p *Peer) judgeRuled(ctx context.Context, ev federation.Event, it item, r *result) {
	ruled, err := parseRuling(*it.Ruling)
	if err != nil {
		r.fail(federation.Refuse(ev, federation.InvalidTag, "the ruling: "+err.Error()))
		return
	}
	if ruled.Home == p.deps.Home {
		p.judgeOwn(ctx, ev, it, ruled, r)
		return
	}
	if ruled.Home != p.cfg.Home {
		if err := p.deps.checkForwarded(ctx, p.cfg.Home, ev, ruled); err != nil {
			if _, refused := errors.AsType[*federation.RefusalError](err); refused {
				p.ReportMisbehavior(ctx, federation.MisbehaviorRuling, "of "+string(ruled.Home)+" on "+ev.ID.String())
			}
			r.fail(err)
			return
		}
	}
	at := p.deps.Now()
	if ruled.Home != p.cfg.Home && ruled.Filed.Before(at) {
		at = ruled.Filed // the third home signed it then, and its key may have ended since
	}
	if verdict, err := p.deps.Signer.Verify(ctx, ruled.Home, at, []byte(ruled.Document), ruled.Signature); verdict == federation.Invalid {
		p.ReportMisbehavior(ctx, federation.MisbehaviorRuling, "of "+string(ruled.Home)+" on "+ev.ID.String()+", which that did not sign")
		r.fail(federation.Refuse(ev, federation.SignatureInvalid, "of the ruling"))
		return
	} else if err != nil {
		r.fail(err)
		return
	}
	ev.Arrival = p.arrive(ev.Arrival, ev.Stamped, it)
	ev.Arrival.Home = ruled.Home
	if ev, err = p.attributed(ctx, ev, it.Step.Document, ruled); err != nil {
		r.fail(err)
		return
	}
	if ev.Verb == federation.Offer {
		if ev.Arrival.Place, err = p.deps.Gateway.Place(ctx, ev); err != nil {
			r.fail(err)
			return
		}
	}
	judged, err := p.deps.Gateway.FileRuled(ctx, ev, ruled)
	p.reportInvalid(ctx, ev, judged.Verdict)
	if r.set(judged, err); r.Outcome == outcomeStored || r.Outcome == outcomeDuplicate {
		r.Moved = p.deps.Mailboxes.MovedAway(ctx, judged.View, p.deps.Now())
	}
}

// The answer includes steps missing at the other home.
func (p *Peer) judgeAsked(ctx context.Context, ev federation.Event, it item, r *result) {
	if ev.Verb == federation.Offer || ev.Verb == federation.Confirm {
		r.fail(federation.Refuse(ev, federation.WrongSender, "an offer is filed where it enters"))
		return
	}
	view, err := p.deps.Record.View(ctx, ev.Handoff)
	switch {
	case err != nil:
		r.fail(err)
		return
	case !view.Exists() || view.Home != p.deps.Home:
		r.fail(federation.Refuse(ev, federation.UnknownHandoff, ""))
		return
	case it.Have != nil && *it.Have > view.Version: // this home lost steps in a restore, and must not judge without them
		r.fail(&federation.GapError{Have: view.Version, Want: *it.Have})
		return
	}
	ev.Arrival = p.arrive(ev.Arrival, ev.Stamped, it)
	if ev, err = p.attested(ctx, ev, it.Step.Document); err != nil {
		r.fail(err)
		return
	}
	judged, err := p.deps.Gateway.Submit(ctx, ev)
	p.reportInvalid(ctx, ev, judged.Verdict)
	if r.set(judged, err); r.Outcome != outcomeStored && r.Outcome != outcomeDuplicate {
		return
	}
	var have federation.Version
	if it.Have != nil { // a diverged home may have more earlier steps than this one
		have = min(*it.Have, judged.Entry.Version-1)
	}
	if r.Steps, err = p.deps.stepsAfter(ctx, judged.Entry, have); err != nil {
		r.fail(err)
	}
}

// Erased steps are omitted.
func (d Deps) stepsAfter(ctx context.Context, upTo federation.Entry, have federation.Version) ([]item, error) {
	var steps []item
	size := 0
	for entry, err := range d.Record.Log(ctx, upTo.Event.Handoff, have) {
		if err != nil {
			return nil, fmt.Errorf("read log of %s: %w", upTo.Event.Handoff, err)
		}
		if entry.Version > upTo.Version || len(steps) == maxSteps || size > batchBytes || entry.Event.Erased != nil {
			break
		}
		it, err := d.filed(ctx, d.Home, entry)
		if err != nil {
			return nil, err
		}
		steps, size = append(steps, it), size+it.size()
	}
	return steps, nil
}

// If stamped, the item has its own time.
func (p *Peer) arrive(at federation.Arrival, stamped bool, it item) federation.Arrival {
	now := p.deps.Now()
	at.Network, at.Link, at.Home, at.RemoteVenue = Network, p.Name(), p.cfg.Home, true
	if at.Received = now; !stamped && it.Step.Received.Before(now) {
		at.Received = it.Step.Received // the step has no time
	}
	return at
}

// The result is "" unless one of these homes may represent the party.
func (p *Peer) trustedParty(ctx context.Context, party federation.DID, homes ...federation.HomeID) (federation.DID, error) {
	if party == "" {
		return "", nil
	}
	if trusted, err := p.deps.Mailboxes.MaySpeakFor(ctx, party, homes...); !trusted || err != nil {
		return "", err
	}
	return party, nil
}

func (r *result) set(judged federation.Judgement, err error) {
	switch {
	case err != nil:
		r.fail(err)
	case judged.Awaits: // the other home keeps the step
		r.Outcome = outcomeLater
	case judged.Duplicate:
		r.Outcome = outcomeDuplicate
	default:
		r.Outcome = outcomeStored
	}
}

// Errors other than refusals make homes retry, and are not shown to them.
func (r *result) fail(err error) {
	*r = result{Event: r.Event, Digest: r.Digest, Outcome: outcomeLater}
	if gap, ok := errors.AsType[*federation.GapError](err); ok {
		r.Outcome, r.Have = outcomeGap, gap.Have
		return
	}
	if _, ok := errors.AsType[*federation.ForkError](err); ok {
		r.Outcome, r.Code, r.Detail = outcomeConflict, string(federation.WrongSender), "it contradicts an earlier ruling of the home"
		return
	}
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code == federation.SignatureUnverifiable || refused.Code == federation.RateLimited {
		return
	}
	r.Outcome, r.Code, r.Detail = outcomeRefused, string(refused.Code), refused.Detail
}

// judgeOwn files a step that this home ruled on, but lost in a restore. The signature of the ruling
// proves the position of the step, and that this home verified it.
func (p *Peer) judgeOwn(ctx context.Context, ev federation.Event, it item, ruled federation.Ruling, r *result) {
	verdict, err := p.deps.Signer.Verify(ctx, p.deps.Home, ruled.Filed, []byte(ruled.Document), ruled.Signature)
	switch {
	case verdict == federation.Invalid:
		p.ReportMisbehavior(ctx, federation.MisbehaviorRuling, "of this home on "+ev.ID.String()+", which it did not sign")
		r.fail(federation.Refuse(ev, federation.SignatureInvalid, "of the ruling"))
		return
	case err != nil:
		r.fail(err)
		return
	}
	ev.Arrival = p.arrive(ev.Arrival, ev.Stamped, it)
	ev.Arrival.Home, ev.Arrival.RemoteVenue, ev.Arrival.ActingFor = ruled.Via, ruled.Via != "", ruled.Party
	ev.Arrival.Name = "" // not known to the other home
	if ev.Verb == federation.Offer {
		if ev.Arrival.Place, err = p.deps.Gateway.Place(ctx, ev); err != nil {
			r.fail(err)
			return
		}
	}
	judged, err := p.deps.Gateway.FileRuled(ctx, ev, ruled)
	r.set(judged, err)
}

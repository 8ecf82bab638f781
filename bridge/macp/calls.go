package macp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

const (
	defaultPage = 100
	maxPage     = 500
)

func (l *Link) initialize(_ context.Context, _ participant, req *macpv1.InitializeRequest) (*macpv1.InitializeResponse, error) {
	switch {
	case len(req.GetSupportedProtocolVersions()) == 0:
		return nil, macpmode.Refuse(macpmode.InvalidRequest, "supported_protocol_versions is empty")
	case !slices.Contains(req.GetSupportedProtocolVersions(), macpmode.Version):
		return nil, macpmode.Refuse(macpmode.UnsupportedVersion, "this runtime supports %s", macpmode.Version)
	}
	return &macpv1.InitializeResponse{
		SelectedProtocolVersion: macpmode.Version,
		RuntimeInfo: &macpv1.RuntimeInfo{
			Name: "baton", Title: "Baton", Version: l.deps.Version, Description: "a gateway of handoffs between networks", WebsiteUrl: l.ports.PublicURL,
		},
		Capabilities: &macpv1.Capabilities{
			Sessions:        &macpv1.SessionsCapability{Stream: true, ListSessions: true, WatchSessions: true},
			Cancellation:    &macpv1.CancellationCapability{CancelSession: true},
			Progress:        &macpv1.ProgressCapability{Progress: true},
			Manifest:        &macpv1.ManifestCapability{GetManifest: true},
			ModeRegistry:    &macpv1.ModeRegistryCapability{ListModes: true},
			Roots:           &macpv1.RootsCapability{},
			PolicyRegistry:  &macpv1.PolicyRegistryCapability{RegisterPolicy: true, ListPolicies: true, ListChanged: true},
			DecisionReceipt: &macpv1.DecisionReceiptCapability{},
			Experimental:    &macpv1.ExperimentalCapabilities{Features: map[string]string{macpmode.CarryExtension: "1"}},
		},
		SupportedModes: []string{macpmode.Mode},
		Instructions:   "Send Authorization: Bearer with the token of your participant. Write with Send, follow with StreamSession, WatchSessions and WatchSignals.",
	}, nil
}

func (*Link) listModes(context.Context, participant, *macpv1.ListModesRequest) (*macpv1.ListModesResponse, error) {
	return &macpv1.ListModesResponse{Modes: []*macpv1.ModeDescriptor{{
		Mode: macpmode.Mode, ModeVersion: macpmode.ModeVersion, Title: "Handoff", Description: "moves responsibility from its owner to a participant that accepts it",
		DeterminismClass: "context-frozen", ParticipantModel: "delegated",
		MessageTypes: []string{
			macpmode.TypeSessionStart, macpmode.TypeOffer, macpmode.TypeContext, macpmode.TypeAccept, macpmode.TypeDecline, macpmode.TypeCommitment,
		},
		TerminalMessageTypes: []string{macpmode.TypeCommitment},
		SchemaUris:           map[string]string{"proto": "buf.build/multiagentcoordinationprotocol/macp"},
	}}}, nil
}

func (l *Link) getManifest(_ context.Context, _ participant, req *macpv1.GetManifestRequest) (*macpv1.GetManifestResponse, error) {
	if id := req.GetAgentId(); id != "" && id != string(l.ports.Home.DID()) {
		return nil, macpmode.Refuse(macpmode.SessionNotFound, "no manifest of %q is here", id)
	}
	return &macpv1.GetManifestResponse{Manifest: l.manifest()}, nil
}

func (l *Link) manifest() *macpv1.AgentManifest {
	scheme := "http://"
	if l.cfg.TLS {
		scheme = "https://"
	}
	types := []string{"application/macp-envelope+proto", "application/macp-envelope+json"}
	return &macpv1.AgentManifest{
		AgentId: string(l.ports.Home.DID()), Title: "Baton", Description: "a gateway of handoffs between networks", SupportedModes: []string{macpmode.Mode},
		InputContentTypes: types, OutputContentTypes: types,
		TransportEndpoints: []*macpv1.TransportEndpoint{
			{Transport: "macp.transport.grpc.v1", Uri: scheme + l.address(), ContentTypes: types[:1]},
			{Transport: "macp.transport.http.v1", Uri: scheme + l.address(), ContentTypes: types[1:]},
		},
	}
}

func (l *Link) sendCall(ctx context.Context, from participant, req *macpv1.SendRequest) (*macpv1.SendResponse, error) {
	if req.GetEnvelope() == nil {
		return nil, macpmode.Refuse(macpmode.InvalidEnvelope, "the request has no envelope")
	}
	return &macpv1.SendResponse{Ack: l.send(ctx, from, req.GetEnvelope())}, nil
}

func (l *Link) getSession(ctx context.Context, from participant, req *macpv1.GetSessionRequest) (*macpv1.GetSessionResponse, error) {
	answer := &macpv1.GetSessionResponse{}
	return answer, l.read(ctx, from, req.GetSessionId(), func(t *turn) error {
		answer.Metadata = t.session.Metadata()
		return nil
	})
}

func (l *Link) cancelSession(ctx context.Context, from participant, req *macpv1.CancelSessionRequest) (*macpv1.CancelSessionResponse, error) {
	ack, err := l.control(ctx, from, macpmode.TypeSessionCancel, req.GetSessionId(), req.GetReason())
	return &macpv1.CancelSessionResponse{Ack: ack}, err
}

func (l *Link) suspendSession(ctx context.Context, from participant, req *macpv1.SuspendSessionRequest) (*macpv1.SuspendSessionResponse, error) {
	ack, err := l.control(ctx, from, macpmode.TypeSessionSuspend, req.GetSessionId(), req.GetReason())
	return &macpv1.SuspendSessionResponse{Ack: ack}, err
}

func (l *Link) resumeSession(ctx context.Context, from participant, req *macpv1.ResumeSessionRequest) (*macpv1.ResumeSessionResponse, error) {
	ack, err := l.control(ctx, from, macpmode.TypeSessionResume, req.GetSessionId(), req.GetReason())
	return &macpv1.ResumeSessionResponse{Ack: ack}, err
}

// The page token is the name of the last session in the order in which they began.
func (l *Link) listSessions(ctx context.Context, from participant, req *macpv1.ListSessionsRequest) (*macpv1.ListSessionsResponse, error) {
	size := int(req.GetPageSize())
	if size <= 0 {
		size = defaultPage
	}
	size = min(size, maxPage)
	prefix := membersPrefix(from.name)
	after := ""
	if req.GetPageToken() != "" {
		if after = prefix + req.GetPageToken(); strings.ContainsAny(req.GetPageToken(), "\x00\n") {
			return nil, macpmode.Refuse(macpmode.InvalidRequest, "page_token is not from this runtime")
		}
	}
	names, err := l.deps.Journals.JournalNames(ctx, prefix, after, size)
	if err != nil {
		return nil, err
	}
	answer := &macpv1.ListSessionsResponse{}
	for _, name := range names {
		err := l.read(ctx, from, name[strings.LastIndexByte(name, '/')+1:], func(t *turn) error {
			answer.Sessions = append(answer.Sessions, t.session.Metadata())
			return nil
		})
		if _, gone := errors.AsType[*macpmode.Error](err); err != nil && !gone { // removed in the meantime
			return nil, err
		}
	}
	if len(names) == size {
		answer.NextPageToken = strings.TrimPrefix(names[len(names)-1], prefix)
	}
	return answer, nil
}

func (l *Link) registerPolicy(ctx context.Context, from participant, req *macpv1.RegisterPolicyRequest) (*macpv1.RegisterPolicyResponse, error) {
	ok, why, err := l.onPolicies(ctx, func(t *turn) error {
		d := req.GetPolicyDescriptor()
		if err := macpmode.CheckPolicy(d); err != nil {
			return err
		}
		count := 0
		for _, each := range t.engine.policies.byID {
			if each.by == from.name {
				count++
			}
		}
		switch {
		case t.engine.policies.byID[d.GetPolicyId()].PolicyDescriptor != nil || t.batch.policies > 0 && t.batch.claims(d.GetPolicyId()):
			return macpmode.Refuse(macpmode.InvalidPolicyDefinition, "the policy %s is registered", d.GetPolicyId())
		case count >= maxPolicies:
			return macpmode.Refuse(macpmode.RateLimited, "a participant registers at most %d policies", maxPolicies)
		}
		d = proto.CloneOf(d)
		d.RegisteredAtUnixMs = t.now.UnixMilli()
		text, err := proto.Marshal(d)
		if err != nil {
			return err
		}
		t.batch.claimed = append(t.batch.claimed, d.GetPolicyId())
		t.changePolicies([]byte(from.name + "\n" + string(text)))
		return nil
	})
	return &macpv1.RegisterPolicyResponse{Ok: ok, Error: why}, err
}

func (l *Link) unregisterPolicy(ctx context.Context, from participant, req *macpv1.UnregisterPolicyRequest) (*macpv1.UnregisterPolicyResponse, error) {
	ok, why, err := l.onPolicies(ctx, func(t *turn) error {
		id := req.GetPolicyId()
		known, ok := t.engine.policies.byID[id]
		switch {
		case !ok || t.batch.claims(id):
			return macpmode.Refuse(macpmode.UnknownPolicyVersion, "there is no policy %s", id)
		case known.by != from.name:
			return macpmode.Refuse(macpmode.Forbidden, "only its registrant can remove a policy")
		}
		t.batch.claimed = append(t.batch.claimed, id)
		t.changePolicies([]byte(id))
		return nil
	})
	return &macpv1.UnregisterPolicyResponse{Ok: ok, Error: why}, err
}

// onPolicies returns a refusal as a response.
func (l *Link) onPolicies(ctx context.Context, do func(t *turn) error) (ok bool, why string, err error) {
	err = l.engine.on(ctx, "", func(_ context.Context, t *turn) error { return do(t) })
	if refused, isRefusal := errors.AsType[*macpmode.Error](err); isRefusal {
		return false, refused.Error(), nil
	}
	return err == nil, "", err
}

func (l *Link) getPolicy(ctx context.Context, _ participant, req *macpv1.GetPolicyRequest) (*macpv1.GetPolicyResponse, error) {
	answer := &macpv1.GetPolicyResponse{}
	return answer, l.engine.on(ctx, "", func(_ context.Context, t *turn) error {
		if answer.PolicyDescriptor = t.engine.policies.byID[req.GetPolicyId()].PolicyDescriptor; answer.GetPolicyDescriptor() == nil {
			return macpmode.Refuse(macpmode.UnknownPolicyVersion, "there is no policy %s", req.GetPolicyId())
		}
		return nil
	})
}

func (l *Link) listPolicies(ctx context.Context, _ participant, req *macpv1.ListPoliciesRequest) (*macpv1.ListPoliciesResponse, error) {
	answer := &macpv1.ListPoliciesResponse{}
	return answer, l.engine.on(ctx, "", func(_ context.Context, t *turn) error {
		answer.Descriptors = t.engine.policies.list(req.GetMode())
		return nil
	})
}

const firstSessions = 1000

func (l *Link) watchSessions(ctx context.Context, from participant, _ *macpv1.WatchSessionsRequest, begin func() error, send func(*macpv1.WatchSessionsResponse) error) error {
	var out *outlet[*macpv1.SessionLifecycleEvent]
	err := l.engine.on(ctx, "", func(_ context.Context, t *turn) (err error) {
		out, err = watch(t.engine.watchers.sessions, from.name)
		return err
	})
	if err != nil {
		return err
	}
	defer l.leave(ctx, func(e *engine) { unwatch(e.watchers.sessions, from.name, out) })
	if err := begin(); err != nil {
		return err
	}
	known, err := l.sessionsOf(ctx, from)
	if err != nil {
		return err
	}
	notified := map[string]bool{}
	for _, s := range known {
		notified[s.GetSessionId()] = true
		if s.GetState() != macpv1.SessionState_SESSION_STATE_OPEN && s.GetState() != macpv1.SessionState_SESSION_STATE_SUSPENDED {
			continue
		}
		ev := &macpv1.SessionLifecycleEvent{EventType: macpv1.SessionLifecycleEvent_EVENT_TYPE_CREATED, Session: s, ObservedAtUnixMs: s.GetStartedAtUnixMs()}
		if err := send(&macpv1.WatchSessionsResponse{Event: ev}); err != nil {
			return err
		}
	}
	return drain(ctx, out, func(ev *macpv1.SessionLifecycleEvent) error {
		if ev.GetEventType() == macpv1.SessionLifecycleEvent_EVENT_TYPE_CREATED && notified[ev.GetSession().GetSessionId()] {
			return nil // it began while the list was read
		}
		return send(&macpv1.WatchSessionsResponse{Event: ev})
	})
}

func (l *Link) sessionsOf(ctx context.Context, from participant) ([]*macpv1.SessionMetadata, error) {
	var all []*macpv1.SessionMetadata
	req := &macpv1.ListSessionsRequest{PageSize: maxPage}
	for {
		page, err := l.listSessions(ctx, from, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetSessions()...)
		all = all[max(0, len(all)-firstSessions):]
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

func (l *Link) watchSignals(ctx context.Context, from participant, _ *macpv1.WatchSignalsRequest, begin func() error, send func(*macpv1.WatchSignalsResponse) error) error {
	var out *outlet[*macpv1.WatchSignalsResponse]
	err := l.engine.on(ctx, "", func(_ context.Context, t *turn) (err error) {
		out, err = watch(t.engine.watchers.signals, from.name)
		return err
	})
	if err != nil {
		return err
	}
	defer l.leave(ctx, func(e *engine) { unwatch(e.watchers.signals, from.name, out) })
	if err := begin(); err != nil {
		return err
	}
	if err := l.lastSignals(ctx, from, send); err != nil {
		return err
	}
	return drain(ctx, out, send)
}

func (l *Link) lastSignals(ctx context.Context, from participant, send func(*macpv1.WatchSignalsResponse) error) error {
	known, err := l.sessionsOf(ctx, from)
	if err != nil {
		return err
	}
	for _, s := range known {
		var last []byte
		err := l.read(ctx, from, s.GetSessionId(), func(t *turn) error {
			last = t.session.Signal
			return nil
		})
		if err != nil || len(last) == 0 {
			continue // a session removed in the meantime has no signal
		}
		env, err := envelopeOf(last)
		if err != nil {
			return err
		}
		if err := send(&macpv1.WatchSignalsResponse{Envelope: env, SenderAuthenticated: true}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Link) watchPolicies(ctx context.Context, from participant, _ *macpv1.WatchPoliciesRequest, begin func() error, send func(*macpv1.WatchPoliciesResponse) error) error {
	var out *outlet[*macpv1.WatchPoliciesResponse]
	err := l.engine.on(ctx, "", func(_ context.Context, t *turn) (err error) {
		if out, err = watch(t.engine.watchers.policies, from.name); err == nil {
			out.send(&macpv1.WatchPoliciesResponse{Descriptors: t.engine.policies.list(""), ObservedAtUnixMs: t.now.UnixMilli()})
		}
		return err
	})
	if err != nil {
		return err
	}
	defer l.leave(ctx, func(e *engine) { unwatch(e.watchers.policies, from.name, out) })
	if err := begin(); err != nil {
		return err
	}
	return drain(ctx, out, send)
}

// leave removes a reader, even after its request has ended.
func (l *Link) leave(ctx context.Context, remove func(e *engine)) {
	_ = l.engine.on(context.WithoutCancel(ctx), "", func(_ context.Context, t *turn) error { // an ended engine has no readers
		remove(t.engine)
		return nil
	})
}

func drain[T any](ctx context.Context, o *outlet[T], send func(T) error) error {
	for {
		select {
		case v, more := <-o.out:
			if !more {
				return o.why
			}
			if err := send(v); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow returns nil after the envelope that resolved the session.
func (l *Link) follow(ctx context.Context, from participant, id string, after uint64, send func(numbered) error) error {
	out, until, over, err := l.subscribe(ctx, from, id)
	if err != nil {
		return err
	}
	if out != nil {
		defer l.unsubscribe(ctx, id, out)
	}
	if err := l.replay(ctx, id, after, until, send); err != nil {
		return err
	}
	if out == nil {
		return over
	}
	return drain(ctx, out.outlet, func(n numbered) error {
		if n.sequence <= max(after, until) {
			return nil
		}
		return send(n)
	})
}

// For a closed session, the stream is nil and over is the reason for its end. The number is that of
// the newest envelope.
func (l *Link) subscribe(ctx context.Context, from participant, id string) (out *stream, until uint64, over, err error) {
	err = l.read(ctx, from, id, func(t *turn) error {
		s := t.session
		until = s.Sequence
		if s.Over() {
			over = overError(s.State)
			return nil
		}
		if len(s.streams) >= maxWatchers*8 {
			return macpmode.Refuse(macpmode.RateLimited, "the session has too many readers")
		}
		out = &stream{newOutlet[numbered]()}
		s.streams[out] = true
		return nil
	})
	return out, until, over, err
}

func (l *Link) unsubscribe(ctx context.Context, id string, out *stream) {
	_ = l.engine.on(context.WithoutCancel(ctx), id, func(_ context.Context, t *turn) error { // an ended engine has no readers
		delete(t.session.streams, out)
		out.end(nil)
		return nil
	})
}

func (l *Link) replay(ctx context.Context, id string, after, until uint64, send func(numbered) error) error {
	var read, sequence uint64
	for sequence < until {
		page, err := l.deps.Journals.Journal(ctx, sessionJournal(id), read, pageEntries)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return macpmode.Refuse(macpmode.HistoryUnavailable, "the session was removed")
		}
		for _, text := range page {
			read++
			env, shown, err := shownEnvelope(text)
			if err != nil {
				return err
			}
			if !shown || sequence >= until {
				continue
			}
			if sequence++; sequence > after {
				if err := send(numbered{env, sequence}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p participants) has(name string) bool {
	_, ok := p.named(name)
	return ok
}

func readEntry(text []byte) (*historyv1.Entry, error) {
	entry := &historyv1.Entry{}
	if err := proto.Unmarshal(text, entry); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return entry, nil
}

func shownEnvelope(text []byte) (*macpv1.Envelope, bool, error) {
	entry, err := readEntry(text)
	if err != nil || entry.GetSource() != historyv1.Source_SOURCE_PARTICIPANT {
		return nil, false, err
	}
	env, err := macpmode.EnvelopeOf(entry)
	return env, true, err
}

func envelopeOf(text []byte) (*macpv1.Envelope, error) {
	env := &macpv1.Envelope{}
	if err := proto.Unmarshal(text, env); err != nil {
		return nil, fmt.Errorf("read envelope: %w", err)
	}
	return env, nil
}

package macp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// One goroutine owns a mirror, the copy of one session of a runtime. The copy is on disk before its
// steps are filed. Its length is the cursor for resuming the stream.
type mirror struct {
	*foreignConn

	id string
	s  *macpmode.Session

	received <-chan *macpv1.Envelope
	ended    <-chan error
	replayed bool // the session was resolved before the current subscription
}

func newMirror(c *foreignConn, id string) *mirror {
	return &mirror{foreignConn: c, id: id, s: &macpmode.Session{}}
}

// If copied is set but no copy exists, the copy of a task was just removed with the copy of its
// offer. It is not created again.
func (m *mirror) run(ctx context.Context, copied bool) error {
	if err := m.load(ctx); err != nil || copied && !m.s.Exists() {
		return err
	}
	if err := m.file(ctx); err != nil {
		return err
	}
	if m.s.Over() {
		return m.retire(ctx)
	}
	m.subscribe(ctx)
	look := time.NewTicker(lookEach)
	defer look.Stop()
	again := time.NewTimer(0) // fires if steps wait to be filed
	defer again.Stop()
	for !m.s.Over() {
		select {
		case env := <-m.received:
			if err := m.handleEnvelope(ctx, env, historyv1.Source_SOURCE_PARTICIPANT); err != nil {
				return err
			}
			again.Reset(0)
		case err := <-m.ended:
			m.received, m.ended = nil, nil
			if gone, err := m.settled(ctx, err); gone || err != nil {
				return err
			}
			again.Reset(0)
		case <-look.C:
			if _, err := m.settled(ctx, nil); err != nil {
				return err
			}
			again.Reset(0)
		case <-again.C:
			if err := m.file(ctx); errors.Is(err, federation.ErrStale) {
				return err // an earlier connection has written: the next one rereads the copy
			} else if err != nil {
				m.log.LogAttrs(ctx, slog.LevelWarn, "session not filed", slog.String("session", m.id), slog.Any("err", err))
				again.Reset(retryAfter)
			} else if at, waits := m.s.Pending(); waits {
				again.Reset(time.Until(time.UnixMilli(at)))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return m.file(ctx)
}

func (m *mirror) load(ctx context.Context) error {
	for {
		page, err := m.deps.Journals.Journal(ctx, m.sessionJournal(m.id), m.s.Length, pageEntries)
		if err != nil {
			return err
		}
		for _, text := range page {
			entry, err := readEntry(text)
			if err == nil {
				err = m.s.Apply(entry)
			}
			if err != nil {
				return fmt.Errorf("read session %s: %w", m.id, err)
			}
		}
		if len(page) < pageEntries {
			return nil
		}
	}
}

// The goroutine of the stream ends with ctx.
func (m *mirror) subscribe(ctx context.Context) {
	received, ended := make(chan *macpv1.Envelope), make(chan error, 1)
	after := m.s.Sequence
	m.group.Go(fault.Func(func() error {
		err := fault.Catch(func() error { return m.read(ctx, after, received) })
		ended <- err
		fault.Again(err)
		return nil
	}))
	m.received, m.ended = received, ended
}

func (m *mirror) read(ctx context.Context, after uint64, received chan<- *macpv1.Envelope) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := connect.NewClient[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse](m.client, m.address("StreamSession"), clientOptions()...).CallBidiStream(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+m.token)
	if err := stream.Send(&macpv1.StreamSessionRequest{SubscribeSessionId: m.id, AfterSequence: after}); err != nil {
		return err
	}
	// The transport notices the end of ctx only after the request has ended.
	stop := context.AfterFunc(ctx, func() { _ = stream.CloseRequest() })
	defer stop()
	defer func() { _ = stream.CloseResponse() }() // after cancel
	defer cancel()
	for {
		frame, err := stream.Receive()
		if err != nil {
			return err
		}
		if refused := frame.GetError(); refused != nil {
			return m.refused(refused)
		}
		select {
		case received <- frame.GetEnvelope():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *mirror) handleEnvelope(ctx context.Context, env *macpv1.Envelope, source historyv1.Source) error {
	if _, seen := m.s.AcceptedAt(env.GetMessageId()); seen && source == historyv1.Source_SOURCE_PARTICIPANT {
		return nil
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return err
	}
	entry := &historyv1.Entry{AtUnixMs: time.Now().UnixMilli(), Envelope: text, Source: source}
	if env.GetMessageType() == macpmode.TypeSessionStart {
		if entry.Policy, err = proto.Marshal(macpmode.BuiltIn()); err != nil {
			return err
		}
	}
	return m.write(ctx, entry)
}

func (m *mirror) write(ctx context.Context, entry *historyv1.Entry, more ...federation.JournalWrite) error {
	text, err := proto.Marshal(entry)
	if err != nil {
		return err
	}
	own := federation.JournalWrite{Name: m.sessionJournal(m.id), Length: m.s.Length, Entries: [][]byte{text}}
	if err := m.deps.Journals.WriteJournals(ctx, append(more, own)); err != nil {
		return err
	}
	return m.s.Apply(entry)
}

// The stream does not report cancelled or expired sessions. The result gone means that the runtime
// has forgotten a session without a copy. A stream error of an open session breaks the connection.
//
// A stream that broke before the session was resolved may lack its last envelopes. Only a later
// subscription shows whether the runtime still has them.
func (m *mirror) settled(ctx context.Context, streamed error) (gone bool, err error) {
	answer, err := foreignCall[macpv1.GetSessionRequest, macpv1.GetSessionResponse](ctx, m.foreignConn, "GetSession", &macpv1.GetSessionRequest{SessionId: m.id})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return !m.s.Exists(), m.end(ctx, macpmode.TypeSessionExpire, "the runtime does not have the session")
	}
	if err != nil {
		return false, err
	}
	switch answer.GetMetadata().GetState() {
	case macpv1.SessionState_SESSION_STATE_CANCELLED:
		return false, m.end(ctx, macpmode.TypeSessionCancel, "the session was cancelled")
	case macpv1.SessionState_SESSION_STATE_EXPIRED:
		return false, m.end(ctx, macpmode.TypeSessionExpire, "the session has expired")
	case macpv1.SessionState_SESSION_STATE_RESOLVED:
		switch {
		case streamed == nil || m.s.Over():
			return false, nil
		case !m.replayed:
			m.replayed = true
			m.subscribe(ctx)
			return false, nil
		case historyEnds(streamed):
			return !m.s.Exists(), m.end(ctx, macpmode.TypeSessionExpire, "the rest of the history is not available")
		}
		return false, streamed
	case macpv1.SessionState_SESSION_STATE_OPEN, macpv1.SessionState_SESSION_STATE_SUSPENDED, macpv1.SessionState_SESSION_STATE_UNSPECIFIED:
		return false, streamed
	}
	return false, nil
}

// historyEnds reports whether the runtime has no more envelopes for a subscription. After any other
// error, such as a broken transport, a new subscription may return more.
func historyEnds(streamed error) bool {
	if _, refused := errors.AsType[*federation.RefusalError](streamed); refused || errors.Is(streamed, io.EOF) {
		return true
	}
	code := connect.CodeOf(streamed)
	return code == connect.CodeNotFound || code == connect.CodeFailedPrecondition || code == connect.CodeOutOfRange
}

func (m *mirror) end(ctx context.Context, kind, why string) error {
	if !m.s.Exists() || m.s.Over() {
		return nil
	}
	entry, err := m.s.Control(kind, &macpv1.SessionCancelPayload{Reason: why}, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return m.write(ctx, entry)
}

func (m *mirror) file(ctx context.Context) error {
	for {
		at, waits := m.s.Pending()
		if !waits || at > time.Now().UnixMilli() {
			return nil
		}
		page, err := m.deps.Journals.Journal(ctx, m.sessionJournal(m.id), m.s.Filed, pageEntries)
		if err != nil || len(page) == 0 {
			return err
		}
		number := m.s.Filed
		for _, text := range page {
			number++
			if err := m.entry(ctx, number, text); err != nil {
				return fmt.Errorf("entry %d: %w", number, err)
			}
		}
		if err := m.write(ctx, &historyv1.Entry{AtUnixMs: time.Now().UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Filed: number}); err != nil {
			return err
		}
	}
}

func (m *mirror) entry(ctx context.Context, number uint64, text []byte) error {
	step, files, err := readWireEntry(m.cfg.Name+"/"+m.id, number, text)
	if err != nil || !files {
		return err
	}
	switch step.env.GetMessageType() {
	case macpmode.TypeOffer:
		return m.fileOffer(ctx, step)
	case macpmode.TypeAccept, macpmode.TypeDecline:
		return m.fileAnswer(ctx, step)
	case macpmode.TypeSessionCancel:
		return m.fileCancel(ctx, step)
	case macpmode.TypeTaskRequest:
		return m.fileRequest(ctx, step)
	case macpmode.TypeTaskUpdate, macpmode.TypeTaskComplete, macpmode.TypeTaskFail, macpmode.TypeTaskReject:
		return m.fileReport(ctx, step)
	}
	return nil
}

func (f *Foreign) steps() steps {
	return steps{ports: f.ports, deps: f.deps, link: f.cfg.Name, log: f.log}
}

func (m *mirror) fileOffer(ctx context.Context, step wireEntry) error {
	var p handoffv1.HandoffOfferPayload
	if err := proto.Unmarshal(step.env.GetPayload(), &p); err != nil {
		return err
	}
	offer := m.s.Offer(p.GetHandoffId())
	switch {
	case offer == nil:
		return nil
	case step.env.GetSender() == m.cfg.Participant:
		id, err := federation.ParseEventID(offer.ID)
		if err != nil || offer.Handoff != "" {
			return nil //nolint:nilerr // the offer of another program has an ID of another form
		}
		found, err := lastIndex(ctx, m.deps.Journals, m.handoffJournal(id))
		if isNotFound(err) || err == nil && found.Session != m.id {
			return nil
		}
		if err != nil {
			return err
		}
		return m.write(ctx, &historyv1.Entry{
			AtUnixMs: time.Now().UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: offer.ID, Handoff: offer.ID},
		})
	case offer.Target != m.cfg.Participant:
		return nil
	}
	id, at, err := m.open(ctx, step, offer)
	if err != nil {
		return err
	}
	if view, err := m.ports.Gateway.View(ctx, id); err != nil || view.Exists() {
		return err
	}
	from := m.senderDID(step.env.GetSender())
	draft, err := m.describe(ctx, step, offer)
	if err != nil {
		return err
	}
	draft.ID, draft.From, draft.To, draft.Verb, draft.Proved = id, from, m.did, federation.Offer, true
	err = m.steps().vouch(ctx, draft, federation.View{}, at)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok { // the offerer gets a decline
		return m.send(ctx, macpmode.TypeDecline, "decline:"+id.String(), &handoffv1.HandoffDeclinePayload{HandoffId: p.GetHandoffId(), DeclinedBy: m.cfg.Participant, Reason: refused.Code.Upper()})
	}
	return err
}

func (m *mirror) retire(ctx context.Context) error {
	kept := m.deps.Bounds().Finished
	if kept <= 0 || time.Now().Before(time.UnixMilli(m.s.Ended).Add(kept)) {
		return nil
	}
	gone := []string{m.sessionJournal(m.id)}
	var all []string
	for _, offer := range m.s.Offers {
		all = append(all, offer.Handoff)
	}
	if m.s.Task != nil {
		all = append(all, m.s.Task.Handoff)
	}
	for _, name := range all {
		id, err := federation.ParseEventID(name)
		if err != nil {
			continue // the offer is not a handoff
		}
		view, err := m.ports.Gateway.View(ctx, id)
		if err != nil || view.Exists() && !view.Over {
			return err
		}
		w, err := m.readWork(ctx, id)
		if err != nil {
			return err
		}
		if gone = append(gone, m.handoffJournal(id), m.workJournal(id)); w.session != "" {
			gone = append(gone, m.sessionJournal(w.session))
		}
	}
	for _, offer := range m.s.Offers {
		gone = append(gone, m.taskKeyJournal(m.s.Initiator, macpmode.TaskKey(m.s.Start.GetContextId(), offer.ID)))
	}
	return m.deps.Journals.RemoveJournals(ctx, gone)
}

func (m *mirror) open(ctx context.Context, step wireEntry, offer *macpmode.Offer) (federation.HandoffID, time.Time, error) {
	id, at, opened, err := step.handoff(ctx, m.ports.Gateway, *offer)
	if err != nil || opened {
		return id, at, err
	}
	index, err := json.Marshal(indexed{Session: m.id, Offer: offer.ID})
	if err != nil {
		return id, at, err
	}
	more := []federation.JournalWrite{{Name: m.handoffJournal(id), Entries: [][]byte{index}}}
	if m.tasks {
		key, err := m.writeTaskKey(ctx, offer, id)
		if err != nil {
			return id, at, err
		}
		more = append(more, key)
	}
	note := &historyv1.Entry{AtUnixMs: time.Now().UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: offer.ID, Handoff: id.String()}}
	return id, at, m.write(ctx, note, more...)
}

func (m *mirror) describe(ctx context.Context, step wireEntry, offer *macpmode.Offer) (stepbuilder.Draft, error) {
	behind := []*macpv1.Envelope{step.env}
	page, err := m.deps.Journals.Journal(ctx, m.sessionJournal(m.id), 0, 1)
	if err != nil {
		return stepbuilder.Draft{}, err
	}
	if len(page) > 0 {
		begun, _, err := shownEnvelope(page[0])
		if err != nil {
			return stepbuilder.Draft{}, err
		}
		behind = append([]*macpv1.Envelope{begun}, behind...)
	}
	said, payload, err := firstContext(ctx, m.deps.Journals, m.sessionJournal(m.id), step.number, offer.ID)
	if err != nil {
		return stepbuilder.Draft{}, err
	}
	if said != nil {
		behind = append(behind, said)
	}
	d, losses := macpmode.Describe(m.s, offer, payload)
	for _, loss := range losses {
		m.log.LogAttrs(ctx, slog.LevelInfo, "member not carried", slog.String("session", m.id), slog.String("reason", loss.Field+": "+loss.Why))
	}
	document, err := original(behind...)
	draft := stepbuilder.Draft{
		Original: document, Title: d.Title, Context: d.Context, Caps: d.Caps, Deadline: d.Deadline, Priority: d.Priority, Replaces: d.Replaces,
	}
	if err == nil && len(d.Content) > 0 {
		draft.Context, draft.ContextHash, err = m.steps().store(ctx, m.did, d.Content)
	}
	return draft, err
}

// Our own participant's answers are already filed, unless another program has its token.
func (m *mirror) fileAnswer(ctx context.Context, step wireEntry) error {
	name, note, err := answerOf(step.env)
	if err != nil {
		return err
	}
	offer := m.s.Offer(name)
	if offer == nil || offer.Handoff == "" {
		return nil
	}
	id, err := federation.ParseEventID(offer.Handoff)
	if err != nil {
		return err
	}
	verb, action, positive := federation.Accept, "handoff.accepted", true
	if step.env.GetMessageType() == macpmode.TypeDecline {
		verb, action, positive = federation.Decline, "handoff.declined", false
	}
	err = m.steps().submit(ctx, step, m.senderDID(step.env.GetSender()), verb, id, note)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		m.log.LogAttrs(ctx, slog.LevelWarn, "answer refused", slog.String("session", m.id), slog.String("handoff_id", id.String()), slog.Any("err", err))
		action, positive, note, err = "handoff.failed", false, refused.Code.Upper(), nil
	}
	if err != nil || m.s.Initiator != m.cfg.Participant {
		return err
	}
	if !m.s.Over() {
		err = m.send(ctx, macpmode.TypeCommitment, "commit:"+offer.ID, m.s.Commitment(offer, action, cmp.Or(note, string(verb)), positive))
	}
	if err == nil && positive && m.tasks {
		err = m.openTask(ctx, id, offer)
	}
	return err
}

func (m *mirror) fileCancel(ctx context.Context, step wireEntry) error {
	handoff := ""
	if offer := m.s.Current(); offer != nil && offer.Disposition == macpmode.Offered {
		handoff = offer.Handoff
	} else if m.s.Task != nil {
		handoff = m.s.Task.Handoff
	}
	if handoff == "" || m.s.Initiator == m.cfg.Participant {
		return nil
	}
	id, err := federation.ParseEventID(handoff)
	if err != nil {
		return err
	}
	err = m.steps().submit(ctx, step, m.senderDID(m.s.Initiator), federation.Cancel, id, "")
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		m.log.LogAttrs(ctx, slog.LevelWarn, "cancel refused", slog.String("session", m.id), slog.Any("err", err))
		return nil
	}
	return err
}

// send logs refusals without returning them, because a closed session accepts no messages.
func (m *mirror) send(ctx context.Context, kind, id string, payload proto.Message) error {
	err := m.tellIn(ctx, m.s.Mode, m.id, kind, id, payload)
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		m.log.LogAttrs(ctx, slog.LevelWarn, "message refused", slog.String("session", m.id), slog.String("verb", kind), slog.Any("err", err))
		return nil
	}
	return err
}

// A signal has neither a session nor a mode.
func (f *Foreign) envelope(mode, session, kind, id string, payload proto.Message) (*macpv1.Envelope, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	env := &macpv1.Envelope{
		MacpVersion: macpmode.Version, MessageType: kind, MessageId: id, Sender: f.cfg.Participant, TimestampUnixMs: time.Now().UnixMilli(), Payload: text,
	}
	if kind != macpmode.TypeSignal {
		env.Mode, env.SessionId = mode, session
	}
	return env, err
}

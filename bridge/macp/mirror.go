package macp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"baton/federation"
	"baton/federation/fault"
	"baton/translate/macpmode"
	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// mirror is the copy of one session of a runtime. One goroutine owns it. The copy is on disk
// before a step of it is filed, and its length is the cursor from which the stream is resumed.
type mirror struct {
	*foreignConn

	id string
	s  *macpmode.Session
}

func newMirror(c *foreignConn, id string) *mirror {
	return &mirror{foreignConn: c, id: id, s: &macpmode.Session{}}
}

// run follows the session until it is over, or ctx ends. Where copied says that there is a copy and
// none is found, the copy of a task was removed with that of its offer just now: it is not made again.
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
	received, ended := m.subscribe(ctx)
	look := time.NewTicker(lookEach)
	defer look.Stop()
	again := time.NewTimer(0) // when steps wait to be filed
	defer again.Stop()
	for !m.s.Over() {
		select {
		case env := <-received:
			if err := m.take(ctx, env, historyv1.Source_SOURCE_PARTICIPANT); err != nil {
				return err
			}
			again.Reset(0)
		case err := <-ended:
			received, ended = nil, nil
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
				return err // a connection before has written: the next one reads the copy again
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

// load reads the copy.
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

// subscribe reads the stream of the session from the cursor on. Its goroutine ends with ctx.
func (m *mirror) subscribe(ctx context.Context) (<-chan *macpv1.Envelope, <-chan error) {
	received, ended := make(chan *macpv1.Envelope), make(chan error, 1)
	after := m.s.Sequence
	m.group.Go(fault.Func(func() error {
		err := fault.Catch(func() error { return m.read(ctx, after, received) })
		ended <- err
		fault.Again(err)
		return nil
	}))
	return received, ended
}

func (m *mirror) read(ctx context.Context, after uint64, received chan<- *macpv1.Envelope) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := connect.NewClient[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse](m.client, m.address("StreamSession"), clientOptions()...).CallBidiStream(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+m.token)
	if err := stream.Send(&macpv1.StreamSessionRequest{SubscribeSessionId: m.id, AfterSequence: after}); err != nil {
		return err
	}
	// The transport notices the end of ctx once the request has ended.
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

// take copies an envelope. The first one of a session is its start.
func (m *mirror) take(ctx context.Context, env *macpv1.Envelope, source historyv1.Source) error {
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

// write appends an entry to the copy, and makes its change.
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

// settled asks the runtime for the state of the session, which the stream does not tell when the
// session is cancelled or expires. It reports whether the runtime has forgotten the session. An
// error of the stream of an open session breaks the connection, which is made again.
func (m *mirror) settled(ctx context.Context, streamed error) (gone bool, err error) {
	answer, err := foreignCall[macpv1.GetSessionRequest, macpv1.GetSessionResponse](ctx, m.foreignConn, "GetSession", &macpv1.GetSessionRequest{SessionId: m.id})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return true, m.end(ctx, macpmode.TypeSessionExpire, "the runtime does not have the session")
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
		if streamed != nil && m.s.Open() { // its last envelopes are not here
			return true, m.end(ctx, macpmode.TypeSessionExpire, "the rest of the history is not available")
		}
	case macpv1.SessionState_SESSION_STATE_OPEN, macpv1.SessionState_SESSION_STATE_SUSPENDED, macpv1.SessionState_SESSION_STATE_UNSPECIFIED:
		return false, streamed
	}
	return false, nil
}

// end notes the end of the session.
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

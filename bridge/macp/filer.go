package macp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate"
	"baton/translate/macpmode"
	"baton/translate/macpmode/handoffv1"
	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// The times and bounds of the filer.
const (
	sweepEach  = 250 * time.Millisecond
	sweepLimit = 256
	filers     = 8               // sessions whose steps are filed at a time
	retryAfter = 2 * time.Second // after a step that could not be filed now
	freshStep  = time.Minute     // for which a step keeps the ID of its entry, whose time is in it
)

// filer files what sessions say as steps of handoffs, in the order of each session, and looks at
// sessions whose time has come. What is left to file is in the histories: a restart goes on.
type filer struct {
	link  *Link
	mu    sync.Mutex
	ready map[string]bool // sessions that have something to file
	woken chan struct{}
}

func newFiler(l *Link) *filer {
	return &filer{link: l, ready: map[string]bool{}, woken: make(chan struct{}, 1)}
}

// wake has a session looked at. It does not block.
func (f *filer) wake(session string) {
	f.mu.Lock()
	f.ready[session] = true
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// take returns the sessions to look at.
func (f *filer) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for session := range f.ready {
		all = append(all, session)
		delete(f.ready, session)
	}
	return all
}

// run looks at sessions until ctx ends.
func (f *filer) run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEach)
	defer sweep.Stop()
	for {
		select {
		case <-f.woken:
		case <-sweep.C:
			f.sweep(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var group errgroup.Group
		group.SetLimit(filers)
		for _, session := range f.take() {
			group.Go(func() error {
				f.look(ctx, session)
				return nil
			})
		}
		_ = group.Wait() // each look logs its error
	}
}

// sweep finds the sessions that are due.
func (f *filer) sweep(ctx context.Context) {
	due, err := f.link.deps.Journals.DueJournals(ctx, sessionPrefix, time.Now(), sweepLimit)
	if err != nil {
		if ctx.Err() == nil {
			f.link.log.LogAttrs(ctx, slog.LevelError, "due sessions not read", slog.Any("err", err))
		}
		return
	}
	for _, name := range due {
		f.wake(name[len(sessionPrefix):])
	}
}

// look makes what the clock has made of a session, and files its steps.
func (f *filer) look(ctx context.Context, session string) {
	err := f.file(ctx, session)
	if err == nil || ctx.Err() != nil {
		return
	}
	f.link.log.LogAttrs(ctx, slog.LevelWarn, "session not filed", slog.String("session", session), slog.Any("err", err))
	err = f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if t.session.Exists() {
			t.pending()
			t.batch.later[t.session] = t.now.Add(retryAfter)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.link.log.LogAttrs(ctx, slog.LevelError, "session not looked at", slog.String("session", session), slog.Any("err", err))
	}
}

// snapshot is what the filer reads of a session at one moment.
type snapshot struct {
	filed, length uint64
	waits         bool
	at            int64
	ended         int64    // 0 for a session that is not over
	handoffs      []string // of the offers
}

// file files the steps of a session that wait, one after the other.
func (f *filer) file(ctx context.Context, session string) error {
	var s snapshot
	err := f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if !t.session.Exists() {
			return nil
		}
		s = snapshot{filed: t.session.Filed, length: t.session.Length, ended: t.session.Ended}
		s.at, s.waits = t.session.Pending()
		for _, offer := range t.session.Offers {
			if offer.Handoff != "" {
				s.handoffs = append(s.handoffs, offer.Handoff)
			}
		}
		return nil
	})
	if err == nil && s.ended != 0 && !s.waits {
		return f.retire(ctx, session, s)
	}
	if err != nil || !s.waits || s.at > time.Now().UnixMilli() {
		return err
	}
	for s.filed < s.length {
		page, err := f.link.deps.Journals.Journal(ctx, sessionJournal(session), s.filed, pageEntries)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, text := range page {
			s.filed++
			if err := f.entry(ctx, session, s, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry files one entry, and notes that.
func (f *filer) entry(ctx context.Context, session string, s snapshot, text []byte) error {
	entry, err := readEntry(text)
	if err != nil {
		return err
	}
	env, err := macpmode.EnvelopeOf(entry)
	if err != nil || !macpmode.Files(entry, env) {
		return err
	}
	step := said{session: session, number: s.filed, entry: entry, env: env}
	switch env.GetMessageType() {
	case macpmode.TypeOffer:
		err = f.link.fileOffer(ctx, step)
	case macpmode.TypeAccept, macpmode.TypeDecline:
		err = f.link.fileAnswer(ctx, step)
	case macpmode.TypeSessionCancel:
		err = f.link.fileCancel(ctx, step)
	case macpmode.TypeSessionExpire:
		err = f.link.reopen(ctx, step)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", s.filed, err)
	}
	return f.note(ctx, session, s.filed)
}

// note writes that the entries up to a number are filed.
func (f *filer) note(ctx context.Context, session string, filed uint64) error {
	return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if t.session.Filed >= filed {
			return nil
		}
		return t.accept(&historyv1.Entry{AtUnixMs: t.now.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Filed: filed})
	})
}

// indexed is the session of a handoff, as its journal has it.
type indexed struct {
	Session string `json:"session"`
	Offer   string `json:"offer"`
	Handoff string `json:"handoff,omitempty"` // under the key of a task
}

// index returns the session of a handoff, or [federation.ErrNotFound].
func (l *Link) index(ctx context.Context, id federation.HandoffID) (indexed, error) {
	return lastIndex(ctx, l.deps.Journals, handoffJournal(id))
}

// lastIndex returns the newest session in the journal of a handoff, or [federation.ErrNotFound].
func lastIndex(ctx context.Context, journals Journals, name string) (indexed, error) {
	entries, err := journals.Journal(ctx, name, 0, pageEntries)
	if err != nil {
		return indexed{}, err
	}
	if len(entries) == 0 {
		return indexed{}, federation.ErrNotFound
	}
	var found indexed
	return found, json.Unmarshal(entries[len(entries)-1], &found)
}

// fileOffer files an offer of a participant. An offer to a name without a DID stays in the session.
func (l *Link) fileOffer(ctx context.Context, s said) error {
	from, local := l.participants.named(s.env.GetSender())
	offer, description, document, err := l.offered(ctx, s)
	to := l.participants.of(offer.Target)
	if err != nil || !local || to == "" {
		return err
	}
	id, at, err := l.open(ctx, s, offer)
	if err != nil {
		return err
	}
	if view, err := l.ports.Gateway.View(ctx, id); err != nil || view.Exists() {
		return err
	}
	draft := stepbuilder.Draft{
		ID: id, From: from.did, Verb: federation.Offer, Proved: true, Original: document, To: to, Title: description.Title, Context: description.Context,
		Caps: description.Caps, Deadline: description.Deadline, Priority: description.Priority, Replaces: description.Replaces,
	}
	if len(description.Content) > 0 {
		if draft.Context, draft.ContextHash, err = l.steps().store(ctx, from.did, description.Content); err != nil {
			return err
		}
	}
	err = l.steps().vouch(ctx, draft, federation.View{}, at)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return l.cancelRefused(ctx, s.session, refused)
	}
	return err
}

// open writes which handoff an offer is, before the handoff is filed: its first step may come at
// once.
func (l *Link) open(ctx context.Context, s said, offer macpmode.Offer) (federation.HandoffID, time.Time, error) {
	id, at, opened, err := s.handoff(ctx, l.ports.Gateway, offer)
	if err != nil || opened {
		return id, at, err
	}
	index, err := json.Marshal(indexed{Session: s.session, Offer: offer.ID})
	if err != nil {
		return id, at, err
	}
	return id, at, l.engine.on(ctx, s.session, func(_ context.Context, t *turn) error {
		t.batch.more = append(t.batch.more, federation.JournalWrite{Name: handoffJournal(id), Entries: [][]byte{index}})
		return t.accept(&historyv1.Entry{
			AtUnixMs: t.now.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: offer.ID, Handoff: id.String()},
		})
	})
}

// errNoHistory is the error of a session that was removed meanwhile.
var errNoHistory = errors.New("the session has no history")

// offered returns what the history says about an offer: the offer, what it is as a handoff, and
// the evidence.
func (l *Link) offered(ctx context.Context, s said) (offer macpmode.Offer, d macpmode.Description, document string, err error) {
	var p handoffv1.HandoffOfferPayload
	if err = proto.Unmarshal(s.env.GetPayload(), &p); err != nil {
		return offer, d, "", err
	}
	entries, err := l.deps.Journals.Journal(ctx, sessionJournal(s.session), 0, 1)
	if err != nil || len(entries) == 0 {
		return offer, d, "", errors.Join(err, errNoHistory)
	}
	begun, _, err := shownEnvelope(entries[0])
	if err != nil {
		return offer, d, "", err
	}
	behind := []*macpv1.Envelope{begun, s.env}
	said, payload, err := firstContext(ctx, l.deps.Journals, sessionJournal(s.session), s.number, p.GetHandoffId())
	if err != nil {
		return offer, d, "", err
	}
	if said != nil {
		behind = append(behind, said)
	}
	err = l.engine.on(ctx, s.session, func(_ context.Context, t *turn) error {
		found := t.session.Offer(p.GetHandoffId())
		if found == nil {
			return errNoHistory
		}
		var losses []translate.Loss
		offer = *found
		d, losses = macpmode.Describe(t.session.Session, found, payload)
		for _, loss := range losses {
			l.log.LogAttrs(ctx, slog.LevelInfo, "member not carried", slog.String("session", s.session), slog.String("reason", loss.Field+": "+loss.Why))
		}
		return nil
	})
	if err != nil {
		return offer, d, "", err
	}
	document, err = original(behind...)
	return offer, d, document, err
}

// firstContext returns the first context of an offer that was accepted before the offer is
// filed, nil for none.
func firstContext(ctx context.Context, journals Journals, name string, after uint64, offer string) (*macpv1.Envelope, *handoffv1.HandoffContextPayload, error) {
	page, err := journals.Journal(ctx, name, after, pageEntries)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range page {
		env, shown, err := shownEnvelope(text)
		if err != nil {
			return nil, nil, err
		}
		if !shown || env.GetMessageType() != macpmode.TypeContext {
			continue
		}
		p := &handoffv1.HandoffContextPayload{}
		if err := proto.Unmarshal(env.GetPayload(), p); err != nil {
			return nil, nil, err
		}
		if p.GetHandoffId() == offer {
			return env, p, nil
		}
	}
	return nil, nil, nil
}

// cancelRefused ends a session whose offer the gateway refused, with the reason.
func (l *Link) cancelRefused(ctx context.Context, session string, refused *federation.RefusalError) error {
	return l.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		return t.cancel(refused.Code.Upper()+": "+refused.Sentence(), "")
	})
}

// cancel ends the session. The event is the step that the cancel shows; "" for none.
func (t *turn) cancel(reason, event string) error {
	if t.session.Over() {
		return nil
	}
	entry, err := t.session.Control(macpmode.TypeSessionCancel, &macpv1.SessionCancelPayload{Reason: reason, CancelledBy: macpmode.RuntimeSender}, t.now.UnixMilli())
	if err != nil {
		return err
	}
	if entry.Event = event; event == "" {
		entry.Event = "-" // the runtime cancels: no step of a participant
	}
	return t.accept(entry)
}

// fileAnswer files the accept or the decline of a participant.
func (l *Link) fileAnswer(ctx context.Context, s said) error {
	from, local := l.participants.named(s.env.GetSender())
	name, note, err := answerOf(s.env)
	if err != nil || !local {
		return err
	}
	id, err := l.handoffNamed(ctx, s.session, name)
	if err != nil || id.IsZero() {
		return err
	}
	verb := federation.Accept
	if s.env.GetMessageType() == macpmode.TypeDecline {
		verb = federation.Decline
	}
	err = l.steps().take(ctx, s, from.did, verb, id, note)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.log.LogAttrs(ctx, slog.LevelWarn, "answer refused", slog.String("session", s.session), slog.String("handoff_id", id.String()), slog.Any("err", err))
		return l.conclude(ctx, s.session, id, "handoff.failed", refused.Code.Upper(), false)
	}
	if err != nil {
		return err
	}
	if verb == federation.Decline {
		return l.conclude(ctx, s.session, id, "handoff.declined", "declined by "+from.name, false)
	}
	if l.cfg.Profile == holdOpen {
		return nil
	}
	return l.conclude(ctx, s.session, id, "handoff.accepted", "transferred to "+from.name, true)
}

// answerOf returns the offer and the reason of an answer.
func answerOf(env *macpv1.Envelope) (offer, reason string, err error) {
	if env.GetMessageType() == macpmode.TypeAccept {
		var p handoffv1.HandoffAcceptPayload
		err = proto.Unmarshal(env.GetPayload(), &p)
		return p.GetHandoffId(), p.GetReason(), err
	}
	var p handoffv1.HandoffDeclinePayload
	err = proto.Unmarshal(env.GetPayload(), &p)
	return p.GetHandoffId(), p.GetReason(), err
}

// handoffNamed returns the handoff that an offer of a session is, zero for none.
func (l *Link) handoffNamed(ctx context.Context, session, offer string) (id federation.HandoffID, err error) {
	err = l.engine.on(ctx, session, func(_ context.Context, t *turn) (err error) {
		if found := t.session.Offer(offer); found != nil && found.Handoff != "" {
			id, err = federation.ParseEventID(found.Handoff)
		}
		return err
	})
	return id, err
}

// conclude commits a session that the gateway opened, in the name of its owner. It does nothing
// in any other session, and in one that is over.
func (l *Link) conclude(ctx context.Context, session string, id federation.HandoffID, action, reason string, positive bool) error {
	return l.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		offer := t.session.OfferOf(id.String())
		if offer == nil || !t.session.Open() || l.participants.has(t.session.Initiator) {
			return nil
		}
		return t.say(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id.String(), t.session.Commitment(offer, action, reason, positive))
	})
}

// say accepts a message that the gateway writes for a party that is not connected here. The event
// is the step that the message shows.
func (t *turn) say(sender, kind, messageID, event string, payload proto.Message) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	if err != nil {
		return err
	}
	entry, err := t.session.Check(&macpv1.Envelope{
		MacpVersion: macpmode.Version, Mode: macpmode.Mode, MessageType: kind, MessageId: messageID, SessionId: t.session.ID, Sender: sender,
		TimestampUnixMs: t.now.UnixMilli(), Payload: text,
	}, t.now.UnixMilli())
	if err != nil || entry == nil {
		return err
	}
	entry.Event = event
	return t.accept(entry)
}

// fileCancel files that a participant cancelled the session of its pending offer.
func (l *Link) fileCancel(ctx context.Context, s said) error {
	var from participant
	var id federation.HandoffID
	err := l.engine.on(ctx, s.session, func(_ context.Context, t *turn) (err error) {
		owner, local := l.participants.named(t.session.Initiator)
		offer := t.session.Current()
		if !local || offer == nil || offer.Handoff == "" || offer.Disposition != macpmode.Offered {
			return nil
		}
		from = owner
		id, err = federation.ParseEventID(offer.Handoff)
		return err
	})
	if err != nil || id.IsZero() {
		return err
	}
	var p macpv1.SessionCancelPayload
	if err := proto.Unmarshal(s.env.GetPayload(), &p); err != nil {
		return err
	}
	err = l.steps().take(ctx, s, from.did, federation.Cancel, id, p.GetReason())
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		l.log.LogAttrs(ctx, slog.LevelWarn, "cancel refused", slog.String("session", s.session), slog.String("handoff_id", id.String()), slog.Any("err", err))
		return nil
	}
	return err
}

// retire removes a session that ended long ago, once its handoffs are over.
func (f *filer) retire(ctx context.Context, session string, s snapshot) error {
	kept := f.link.deps.Bounds.Bounds().Finished
	if kept <= 0 || time.Now().Before(time.UnixMilli(s.ended).Add(kept)) {
		return nil
	}
	for _, text := range s.handoffs {
		id, err := federation.ParseEventID(text)
		if err != nil {
			return err
		}
		view, err := f.link.ports.Gateway.View(ctx, id)
		if err != nil {
			return err
		}
		if view.Exists() && !view.Over {
			return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
				t.pending()
				t.batch.later[t.session] = t.now.Add(time.Hour)
				return nil
			})
		}
	}
	return f.link.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		if !t.session.Over() {
			return nil
		}
		t.batch.removed = append(t.batch.removed, sessionJournal(session))
		for _, one := range f.link.participants.all {
			t.batch.removed = append(t.batch.removed, memberJournal(one.name, t.session.Started, session))
		}
		for _, text := range s.handoffs {
			t.batch.removed = append(t.batch.removed, handoffPrefix+text)
		}
		t.batch.gone = append(t.batch.gone, t.session)
		return nil
	})
}

package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate"
)

// A client has at most this many unacknowledged steps.
const pageSteps = 50

// Wake-ups may be lost.
const pollInterval = 15 * time.Second

const afterFailure = time.Second

// spec: handofftag "The client's side"
const batchType = "freeq.at/handoff"

// replay sends the inbox of a DID to one client, page by page. A page is delivered once the client
// has answered the PING after it, or sent a handoff-ack for its last step. Undelivered steps are
// sent again to the next client of the same device. The user name of a client identifies its
// device.
type replay struct {
	u      *user
	of     federation.DID
	device string
	caps   capability // that affect the form of steps
	stop   context.CancelFunc
	acks   chan acked // capacity: one per step of a page

	// Fields of the owner.
	page  []step // in flight
	token string // of the PING after the page
}

type step struct {
	entry federation.Entry
	tags  map[string]string // nil for a client that reads lines
	line  string            // "" for a client that reads tags
	name  string
	lines []federation.Line // of a message sent to the client
}

type acked struct {
	steps []step
	whole bool
}

func (s *server) startReplay(ctx context.Context, u *user) {
	caps := u.caps & (capTags | capHandoff | capAct)
	if r := u.replay; r != nil && r.caps != caps {
		s.stopReplay(u) // the next replay continues at the same position
	}
	if !u.welcome || u.account == "" || u.replay != nil || u.over {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r := &replay{u: u, of: u.account, device: u.ident, caps: caps, stop: stop, acks: make(chan acked, pageSteps)}
	u.replay = r
	s.running.Go(func() { s.runReplay(ctx, r) })
}

func (s *server) stopReplay(u *user) {
	if u.replay != nil {
		u.replay.stop()
		u.replay = nil
	}
}

func (s *server) runReplay(ctx context.Context, r *replay) {
	wake, unsubscribe := s.link.ports.PubSub.Subscribe(bridge.DIDTopic(r.of))
	defer unsubscribe()
	at := &reading{}
	defer func() { s.keepPosition(context.WithoutCancel(ctx), r, at) }()
	for ctx.Err() == nil {
		wait, err := s.next(ctx, r, at)
		if err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "inbox not replayed", slog.String("did", string(r.of)), slog.Any("err", err))
			wait = afterFailure
		}
		if wait == 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

type reading struct {
	known   bool
	cursor  federation.Cursor // everything before it was sent to the client
	fresh   bool              // new device: it does not get entries that other devices have read
	live    bool
	ahead   []federation.Entry
	unsaved federation.Cursor // acknowledged but not saved; "" for none
}

func (s *server) page(ctx context.Context, r *replay, at *reading) ([]federation.Entry, error) {
	entries := at.ahead
	at.ahead = nil
	if len(entries) > 0 {
		return entries, nil
	}
	return s.link.deps.Record.Replay(ctx, r.of, at.cursor, s.link.atOnce(pageSteps))
}

func (s *server) readAhead(ctx context.Context, r *replay, at *reading, end federation.Cursor) {
	at.ahead, _ = s.link.deps.Record.Replay(ctx, r.of, end, s.link.atOnce(pageSteps))
}

// Without entries, next returns the time to wait.
func (s *server) next(ctx context.Context, r *replay, at *reading) (time.Duration, error) {
	if !at.known {
		if err := s.begin(ctx, r, at); err != nil {
			return 0, err
		}
	}
	if len(at.ahead) == 0 {
		s.keepPosition(ctx, r, at)
	}
	entries, err := s.page(ctx, r, at)
	if lost, ok := errors.AsType[*federation.CursorError](err); ok {
		at.cursor, at.fresh = lost.Newest, false // the record is older than the cursor
		return afterFailure, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read inbox: %w", err)
	}
	if len(entries) == 0 {
		return pollInterval, s.caughtUp(ctx, r, at)
	}
	end, full := entries[len(entries)-1].Cursor, len(entries) == s.link.atOnce(pageSteps)
	if at.fresh {
		entries = slices.DeleteFunc(entries, func(e federation.Entry) bool { return !e.Waits })
	}
	page := s.written(ctx, r, entries)
	if len(page) == 0 {
		at.cursor = end
		return 0, nil
	}
	if !s.post(func() { s.sendPage(r, page, !at.live) }) {
		return 0, context.Canceled
	}
	var kept fault.Group
	kept.Go(func() { s.keepPosition(ctx, r, at) })
	if full {
		s.readAhead(ctx, r, at, end)
	}
	kept.Wait()
	return 0, s.awaitAcks(ctx, r, at, end)
}

func (s *server) begin(ctx context.Context, r *replay, at *reading) error {
	devices, err := s.link.deps.Record.Devices(ctx, r.of)
	if err != nil {
		return fmt.Errorf("look up devices: %w", err)
	}
	i := slices.IndexFunc(devices, func(d federation.Device) bool { return d.Name == r.device })
	if at.fresh = i < 0; i >= 0 {
		at.cursor = devices[i].Cursor
	}
	at.known = true
	return nil
}

// After caughtUp, the device also gets entries that other devices have read.
func (s *server) caughtUp(ctx context.Context, r *replay, at *reading) error {
	at.live = true
	if !at.fresh || at.cursor == "" {
		return nil
	}
	at.fresh = false
	return s.advance(ctx, r, at.cursor)
}

// An entry that cannot be written to any client is logged, and stays in the inbox.
func (s *server) written(ctx context.Context, r *replay, entries []federation.Entry) []step {
	var page []step
	names := s.names(ctx)
	for _, e := range entries {
		each := step{entry: e, name: names(e.Row().Actor())}
		if e.Text != nil {
			text := s.answering(ctx, *e.Text)
			each.entry.Text = &text
			page = append(page, each)
			continue
		}
		var err error
		if in := r.caps.reads(e.Event.Dialect); in == "" {
			each.line, err = s.privateLine(ctx, e, names)
		} else {
			d := federation.Delivery{Entry: e, View: federation.View{Venue: e.Event.Venue}}
			each.tags, err = s.link.render(ctx, d, in)
		}
		if err != nil {
			s.log.LogAttrs(ctx, slog.LevelError, "step not replayed", slog.String("event_id", e.Event.ID.String()), slog.Any("err", err))
			continue
		}
		page = append(page, each)
	}
	return page
}

// If the record cannot be read, the text is unchanged.
func (s *server) answering(ctx context.Context, t federation.Text) federation.Text {
	t, err := irc.Answering(ctx, s.link.ports, s.link.Name(), t)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "answered message not looked up", slog.Any("err", err))
	}
	return t
}

func (s *server) privateLine(ctx context.Context, e federation.Entry, names func(federation.DID) string) (string, error) {
	view, err := s.link.ports.Gateway.View(ctx, e.Event.Handoff)
	if err != nil {
		return "", fmt.Errorf("read handoff %s: %w", e.Event.Handoff, err)
	}
	return irc.PrivateSummary(translate.Step{Entry: e, View: view, Name: names}, selfNick), nil
}

func (s *server) names(ctx context.Context) func(federation.DID) string {
	known := map[federation.DID]string{}
	return func(did federation.DID) string {
		name, ok := known[did]
		if !ok {
			name = s.link.ports.Gateway.Name(ctx, did)
			known[did] = name
		}
		return name
	}
}

// Steps already sent to the client in a channel are not repeated, but are part of the page.
func (s *server) sendPage(r *replay, page []step, batched bool) {
	u := r.u
	if u.over || u.replay != r {
		return
	}
	u.pages++
	r.page, r.token = page, "handoff-"+strconv.FormatUint(u.pages, 10)
	ref := ""
	if batched && u.caps.has(capBatch) && u.caps.reads(federation.HandoffTags) != "" {
		ref = s.reference()
		s.put(u, newMessage(s.name, "BATCH", "+"+ref, batchType), "")
	}
	for i, e := range page {
		ev := e.entry.Event
		if e.entry.Text != nil {
			page[i].lines = s.sendText(u, e, ref)
			continue
		}
		target := ev.Venue
		if federation.Private(target) || e.line != "" && u.channels[target] == nil {
			target = u.nick
		}
		m := s.stepMessage(ev, target, e.name)
		m.tags, m.batch = e.tags, ref
		if e.line != "" {
			m = m.inWords(ev.Handoff, e.line)
		}
		if u.seen.Add(m.msgid) { // a client that enabled tags after the line has both
			s.put(u, m, "")
		}
	}
	if ref != "" {
		s.put(u, newMessage(s.name, "BATCH", "-"+ref), "")
	}
	s.put(u, textMessage("", "PING", r.token), "")
}

// sendText writes only unsent lines, and returns the lines for the history.
func (s *server) sendText(u *user, e step, ref string) (kept []federation.Line) {
	t := *e.entry.Text
	for _, m := range s.lines(u, t, e.name) {
		if s.keeps(m) && t.Fields[federation.Unkept] == "" {
			kept = append(kept, lineOf(m, federation.ChannelRef{Venue: federation.PrivateVenue(u.account, t.Author)}, t.Author, u.account))
		}
		if m.batch = ref; u.seen.Add(m.msgid) {
			s.put(u, m, "")
		}
	}
	return kept
}

// awaitAcks counts acknowledgements of a departing client. The acknowledged messages go into the
// history before the inbox is advanced.
func (s *server) awaitAcks(ctx context.Context, r *replay, at *reading, end federation.Cursor) error {
	lasting := context.WithoutCancel(ctx)
	for {
		select {
		case a := <-r.acks:
			s.keepTexts(lasting, a.steps)
			if at.acknowledged(a, end) {
				return nil
			}
			s.keepPosition(ctx, r, at)
		case <-ctx.Done():
			for len(r.acks) > 0 {
				a := <-r.acks
				s.keepTexts(lasting, a.steps)
				at.acknowledged(a, end)
			}
			return context.Canceled
		}
	}
}

func (at *reading) acknowledged(a acked, end federation.Cursor) bool {
	if !a.whole {
		end = a.steps[len(a.steps)-1].entry.Cursor
	}
	at.cursor, at.unsaved = end, end
	return a.whole
}

// keepPosition runs while the client reads the next page. If the gateway stops earlier, the page is
// sent again.
func (s *server) keepPosition(ctx context.Context, r *replay, at *reading) {
	if at.unsaved == "" {
		return
	}
	switch err := s.advance(ctx, r, at.unsaved); {
	case err == nil:
		at.unsaved = ""
	case ctx.Err() == nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "inbox not advanced", slog.String("did", string(r.of)), slog.Any("err", err))
	}
}

// A device beyond the limit has no position of its own: entries that it has read are read for every
// device.
func (s *server) advance(ctx context.Context, r *replay, to federation.Cursor) error {
	err := s.link.deps.Record.Advance(ctx, r.of, r.device, to, time.Now())
	if errors.Is(err, federation.ErrTooManyDevices) && r.device != "" {
		s.log.LogAttrs(ctx, slog.LevelInfo, "device has no place of its own", slog.String("did", string(r.of)), slog.Any("err", err))
		r.device = ""
		err = s.link.deps.Record.Advance(ctx, r.of, "", to, time.Now())
	}
	return err
}

func (s *server) onPong(_ context.Context, u *user, m ircmsg.Message) {
	if len(m.Params) == 0 {
		return
	}
	token := m.Params[len(m.Params)-1]
	u.proved(token)
	if r := u.replay; r != nil && len(r.page) > 0 && token == r.token {
		r.ack(len(r.page) - 1)
	}
}

func (r *replay) ack(last int) {
	a := acked{steps: r.page[:last+1], whole: last == len(r.page)-1}
	r.page = r.page[last+1:]
	r.acks <- a
}

// spec: handofftag "Tags"
const ackTag = "freeq.at/handoff-ack"

// A handoff-ack counts only for the page in flight.
func (s *server) onAck(u *user, m ircmsg.Message) bool {
	id := ""
	for name, value := range m.AllTags() {
		if strings.TrimPrefix(name, "+") == ackTag {
			id = value
		}
	}
	if id == "" || m.Command != "TAGMSG" {
		return false
	}
	if r := u.replay; r != nil {
		at := slices.IndexFunc(r.page, func(e step) bool {
			row := e.entry.Row()
			return row.WireID() == id || row.ID.String() == id
		})
		if at >= 0 {
			r.ack(at)
		}
	}
	return true
}

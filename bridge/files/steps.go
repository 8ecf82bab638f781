package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// A refused step is a [*federation.RefusalError]; a deferred step is not an error. The view is the
// current state of the handoff, or zero for an offer.
func (b *base) submit(ctx context.Context, d stepbuilder.Draft, view federation.View, name string) error {
	now := time.Now()
	d.Proved = true // proved by access to the directory, or by the token of the hub
	if b.nativeOf(d.From) != "" {
		d.Name = name
	}
	ev, losses, err := b.steps.Vouch(ctx, d, view, now)
	if err != nil {
		return asRefusal(d, err)
	}
	for _, loss := range losses {
		b.reportLoss(ctx, ev.Handoff, loss)
	}
	_, err = b.ports.Gateway.Submit(ctx, ev)
	return asNotNow(b.name, err)
}

// The evidence contains the lost content.
func (b *base) reportLoss(ctx context.Context, id federation.HandoffID, loss federation.Loss) {
	b.log.LogAttrs(ctx, slog.LevelInfo, "content does not fit the step", slog.String("handoff_id", id.String()),
		slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
}

// Each offer needs a title.
func titled(text string) string {
	if strings.TrimSpace(plain(text)) == "" {
		return "untitled"
	}
	return text
}

func plain(text string) string { return federation.PlainText(translate.OneLine(text)) }

// slot is the record's note that maps a file to its handoff.
type slot struct {
	federation.Answer

	fresh bool
}

// kept is the lifetime of a slot without a known end. The record deletes a slot a day after its
// time, which is brought forward when the handoff ends.
const kept = 50 * 365 * 24 * time.Hour

// If there is no slot, reserve mints the ID of the handoff, which is on disk before the handoff
// itself.
func (b *base) reserve(ctx context.Context, key string, digest [32]byte, body []byte, until time.Time) (slot, error) {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return slot{}, err
	}
	return b.reserveAs(ctx, key, digest, id, body, until)
}

func (b *base) reserveAs(ctx context.Context, key string, digest [32]byte, id federation.HandoffID, body []byte, until time.Time) (slot, error) {
	sum := sha256.Sum256([]byte(b.name + "\x00" + key))
	want := federation.Answer{DID: b.ports.Home.DID(), Key: "files:" + hex.EncodeToString(sum[:]), Digest: digest, Event: id, Body: body, At: until}
	found, err := b.deps.Record.Reserve(ctx, want)
	if err != nil {
		return slot{}, fmt.Errorf("reserve a handoff: %w", err)
	}
	return slot{Answer: found, fresh: found.Event == id}, nil
}

// glance is reserve for reads: a new slot is soon deleted again.
func (b *base) glance(ctx context.Context, key string) (slot, error) {
	now := time.Now()
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return slot{}, err
	}
	return b.reserveAs(ctx, key, [32]byte{}, id, nil, now.Add(-kept))
}

func (b *base) keep(ctx context.Context, s slot) error {
	if err := b.deps.Record.Answered(ctx, s.Answer); err != nil {
		return fmt.Errorf("keep a handoff: %w", err)
	}
	return nil
}

func (b *base) hold(ctx context.Context, s slot) (slot, error) {
	if now := time.Now(); s.At.Before(now.Add(kept / 2)) {
		s.At = now.Add(kept)
		return s, b.keep(ctx, s)
	}
	return s, nil
}

// The record deletes the slot a day after the given time.
func (b *base) release(ctx context.Context, s slot, at time.Time) error {
	if !s.At.After(at) {
		return nil
	}
	s.At = at
	return b.keep(ctx, s)
}

// After a restart, an ID reserved earlier may be too old for the home.
func (b *base) remint(ctx context.Context, s slot) (slot, error) {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return s, err
	}
	s.Event = id
	return s, b.keep(ctx, s)
}

// If the reserved ID is too old, offer uses a new one.
func (b *base) offer(ctx context.Context, s slot, d stepbuilder.Draft, name string) (slot, error) {
	d.Verb, d.ID = federation.Offer, s.Event
	var cut []federation.Loss
	d.Title, d.Context, cut = translate.FitWireTitle(d.Title, d.Context)
	for _, loss := range cut {
		b.reportLoss(ctx, s.Event, loss)
	}
	err := b.submit(ctx, d, federation.View{}, name)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	if !isRefusal || refused.Code != federation.EventIDClockSkew {
		return s, err
	}
	if s, err = b.remint(ctx, s); err != nil {
		return s, err
	}
	d.ID = s.Event
	return s, b.submit(ctx, d, federation.View{}, name)
}

func (b *base) view(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	view, err := b.ports.Gateway.View(ctx, id)
	if err != nil {
		return view, fmt.Errorf("read handoff %s: %w", id, err)
	}
	return view, nil
}

func (b *base) expected(ctx context.Context, id federation.HandoffID, agent federation.DID) (federation.View, error) {
	view, err := b.ports.Gateway.Expected(ctx, id, agent)
	if err != nil {
		return view, fmt.Errorf("read handoff %s: %w", id, err)
	}
	return view, nil
}

func (b *base) lapse(ctx context.Context, d federation.Delivery, agents ...federation.DID) error {
	for _, did := range agents {
		if b.nativeOf(did) == "" {
			continue
		}
		if err := b.deps.Record.ExpireUnread(ctx, did, []federation.EventID{d.Entry.Event.ID}, time.Now()); err != nil {
			return fmt.Errorf("expire unread inbox entry: %w", err)
		}
	}
	return nil
}

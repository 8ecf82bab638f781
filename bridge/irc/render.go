package irc

import (
	"context"
	"fmt"
	"log/slog"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/dialect"
)

// Render returns a step as a link may write it: in the dialect of its handoff and
// for the place where that is written. A step that was signed so, and fits one message,
// is returned as it is. A title that is too long for the wire is cut. Any other is written again under the same event ID, signed with
// the key that the gateway keeps for its signer, with the original as evidence,
// which is on disk before this returns. A context for which there is no room then is stored, and
// referred to. The losses say what only the evidence still has. The same step makes the
// same bytes each time. What the home of this gateway did itself is signed by the home in
// each dialect and for each place, and needs no evidence.
//
// spec: handofftag "Rule of dialects"
func Render(ctx context.Context, p bridge.Ports, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	ev := d.Entry.Event
	if ev.Dialect == d.View.Dialect && ev.Venue == d.View.Venue && translate.TagBytes(ev.Fields) <= MaxTagBytes && len(ev.Title) <= translate.MaxTitleBytes {
		return ev, nil, nil
	}
	return Vouch(ctx, p, d)
}

// Vouch returns a step written again, as [Render] does, whatever it was signed for.
func Vouch(ctx context.Context, p bridge.Ports, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	signed := d.Entry.Event
	ev := signed
	ev.Dialect, ev.Venue = d.View.Dialect, d.View.Venue
	title, fitted, cut := translate.FitWireTitle(ev.Title, ev.Context)
	if ev.Title, ev.Context = title, fitted; ev.Context != signed.Context {
		ev.ContextHash = "" // it was the hash of the context without the title
	}
	write := func(ev federation.Event) (map[string]string, []federation.Loss) {
		return dialect.Rewrite(ev, signed.Dialect)
	}
	if signed.From == p.Home.DID() {
		ev, losses, err := signing.SealFitted(ctx, p.Signer.Own(), ev, write, p.Evidence.Refer)
		return ev, append(cut, losses...), err
	}
	evidence, err := p.EvidenceOf(ctx, signing.OriginalOf(signed), ev.Venue)
	if err != nil {
		return signed, nil, err
	}
	if err := p.Evidence.Keep(ctx, ev.Handoff, evidence); err != nil {
		return signed, nil, fmt.Errorf("keep evidence of %s: %w", ev.ID, err)
	}
	ev.For, ev.Evidence = signed.Actor(), &evidence
	ev, losses, err := signing.Vouch(ctx, p.Signer.Kept("person:"+string(ev.For)), ev, write, p.Evidence.Refer)
	return ev, append(cut, losses...), err
}

// Decode reads a step from an IRC message.
//
// spec: handofftag "Tags"
func Decode(m translate.Tagged) (federation.Event, error) {
	ev, err := dialect.Decode(m)
	if err == nil && len(ev.Title) > translate.MaxTitleBytes {
		err = federation.Refuse(ev, federation.InvalidTag, fmt.Sprintf("the title has more than %d bytes", translate.MaxTitleBytes))
	}
	return ev, err
}

// Tags returns the tags of a step that was rendered for the view of its handoff, with a
// message id where that is not empty. It refuses a step whose tags a server would not
// carry whole.
func Tags(ev federation.Event, v federation.View, msgid string) (map[string]string, error) {
	m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: ev}, View: v})
	if err != nil {
		return nil, err
	}
	if msgid != "" {
		m.Tags["msgid"] = msgid
	}
	if err := CheckTags(m.Tags); err != nil {
		return nil, federation.Refuse(ev, federation.InvalidTag, err.Error())
	}
	return m.Tags, nil
}

// LogLosses logs what a rendered step does not carry.
func LogLosses(ctx context.Context, log *slog.Logger, ev federation.Event, losses []federation.Loss) {
	for _, loss := range losses {
		log.LogAttrs(ctx, slog.LevelInfo, "field not carried", slog.String("event_id", ev.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
}

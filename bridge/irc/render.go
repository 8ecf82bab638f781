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
	ev := d.Entry.Event
	if ev.From == p.Home.DID() {
		return rewrite(ctx, p, p.Signer.Own(), ev, d.View)
	}
	evidence, err := signing.OriginalOf(ev).Evidence(p.PublicURL)
	if err == nil {
		evidence, err = signing.SealEvidence(ctx, evidence, d.View.Venue, p.Signer.Kept(signing.EvidenceSecret))
	}
	if err != nil {
		return ev, nil, err
	}
	if err := p.Evidence.Keep(ctx, ev.Handoff, evidence); err != nil {
		return ev, nil, fmt.Errorf("keep evidence of %s: %w", ev.ID, err)
	}
	actor := ev.Actor()
	key := p.Signer.Kept("person:" + string(actor))
	ev.From, ev.For = key.DID, actor
	ev.Provenance, ev.Evidence = federation.Vouched, &evidence
	return rewrite(ctx, p, key, ev, d.View)
}

// rewrite writes a step in the dialect of a view and for its venue, and signs it.
func rewrite(ctx context.Context, p bridge.Ports, key federation.SigningKey, ev federation.Event, v federation.View) (federation.Event, []federation.Loss, error) {
	from, said := ev.Dialect, ev.Context
	ev.Dialect, ev.Venue = v.Dialect, v.Venue
	var cut []federation.Loss
	if ev.Title, ev.Context, cut = translate.FitWireTitle(ev.Title, ev.Context); ev.Context != said {
		ev.ContextHash = "" // it was that of the context without the title
	}
	fields, losses := dialect.Rewrite(ev, from)
	var err error
	if federation.Loses(losses, "context") {
		if ev, err = p.Evidence.Refer(ctx, ev); err != nil {
			return ev, nil, fmt.Errorf("store context of %s: %w", ev.ID, err)
		}
		fields, losses = dialect.Rewrite(ev, from)
	}
	ev.Fields = fields
	ev, err = signing.Seal(ctx, key, ev)
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

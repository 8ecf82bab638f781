package airc

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"

	"github.com/gowebpki/jcs"

	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/aircmsg"
)

// fit writes a step so that its payload is at most as large as its recipient takes: as
// it is, else with the context as a reference, else with evidence in the place of the
// proof as well. A context that no payload can hold as it is becomes a reference too.
// It returns the context that the message has in the end. A limit of zero is none; a
// step that is larger even so is told all the same.
//
// spec: airc-shapes "A step as payload"
func (l *Link) fit(ctx context.Context, step translate.Step, out aircmsg.Out, limit int) (aircmsg.Message, string, error) {
	said, losses, err := aircmsg.Encode(step, out)
	fits := err == nil && within(said, limit)
	if err == nil && federation.InlineContext(step.Event.Context) && (!fits || federation.Loses(losses, "context")) {
		if step.Event, err = l.deps.Evidence.Refer(ctx, step.Event); err != nil {
			return said, "", fmt.Errorf("store context: %w", err)
		}
		said, losses, err = aircmsg.Encode(step, out)
		fits = err == nil && within(said, limit)
	}
	if err == nil && !fits {
		if out.Evidence, err = l.evidenceOf(ctx, step.Event); err != nil {
			return said, "", err
		}
		said, losses, err = aircmsg.Encode(step, out)
		if err == nil && !within(said, limit) {
			l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "payload is larger than its recipient takes", slog.String("network", network),
				slog.String("link", network), slog.String("handoff_id", step.Event.Handoff.String()), slog.Int("limit", limit))
		}
	}
	l.logLosses(ctx, step.Event, losses)
	return said, step.Event.Context, err
}

// stateRoom is the size of `"state_now":"",` and the longest state: a payload grows by that if its
// handoff moves on before the agent reads it.
const stateRoom = 47

// within reports whether a payload is at most so large, whenever it is read. A payload without a
// canonical form passes: signing it returns the error.
func within(said aircmsg.Message, limit int) bool {
	if limit <= 0 {
		return true
	}
	text, err := marshal(said.Payload)
	if err != nil {
		return true
	}
	canonical, err := jcs.Transform(text)
	return err != nil || len(canonical)+stateRoom <= limit
}

// evidenceOf returns where the original of a step is: that of a vouched one, or else
// what was signed, which is on disk before this returns.
func (l *Link) evidenceOf(ctx context.Context, ev federation.Event) (*aircmsg.Evidence, error) {
	if ev.Evidence == nil {
		original, err := l.deps.EvidenceOf(ctx, signing.OriginalOf(ev), ev.Venue)
		if err == nil {
			err = l.deps.Evidence.Keep(ctx, ev.Handoff, original)
		}
		if err != nil {
			return nil, fmt.Errorf("keep evidence of %s: %w", ev.ID, err)
		}
		ev.Evidence = &original
	}
	return &aircmsg.Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}, nil
}

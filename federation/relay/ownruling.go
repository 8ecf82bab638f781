package relay

import (
	"context"

	"baton/federation"
)

// judgeOwn files a step that this home ruled on itself, and lost: its record was restored to
// before the step, which another home gives back. The signature of this home on the ruling proves
// that the step belongs there. What this home verified of the step before it signed needs no
// second proof.
func (p *Peer) judgeOwn(ctx context.Context, ev federation.Event, it item, ruled federation.Ruling, r *result) {
	verdict, err := p.deps.Signer.Verify(ctx, p.deps.Home, ruled.Filed, []byte(ruled.Document), ruled.Signature)
	switch {
	case verdict == federation.Invalid:
		p.ReportOffence(ctx, federation.OffenceRuling, "of this home on "+ev.ID.String()+", which it did not sign")
		r.fail(federation.Refuse(ev, federation.SignatureInvalid, "of the ruling"))
		return
	case err != nil:
		r.fail(err)
		return
	}
	ev = p.arrive(ev, it)
	ev.Arrival.Home, ev.Arrival.Abroad, ev.Arrival.Party = ruled.Via, ruled.Via != "", ruled.Party
	ev.Arrival.Name = "" // the name under which the signer is known here is none of the other home's
	if ev.Verb == federation.Offer {
		if ev.Arrival.Place, err = p.deps.Gateway.Place(ctx, ev); err != nil {
			r.fail(err)
			return
		}
	}
	judged, err := p.deps.Gateway.Ruled(ctx, ev, ruled)
	r.note(judged, err)
}

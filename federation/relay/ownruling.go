package relay

import (
	"context"

	"baton/federation"
)

// judgeOwn files a step that this home ruled on and lost in a restore of its record, and that
// another home sends back. The signature of this home on the ruling proves the place of the step,
// and that this home verified the step then.
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
	ev.Arrival.Name = "" // the other home does not name the signers of this home
	if ev.Verb == federation.Offer {
		if ev.Arrival.Place, err = p.deps.Gateway.Place(ctx, ev); err != nil {
			r.fail(err)
			return
		}
	}
	judged, err := p.deps.Gateway.Ruled(ctx, ev, ruled)
	r.note(judged, err)
}

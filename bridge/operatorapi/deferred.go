package operatorapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// explainDeferred explains an event that is not on file because it cannot be judged
// yet. For one that does not wait either it answers with the error that it is given.
func (o *Operator) explainDeferred(ctx context.Context, text string, none error) (Explanation, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return Explanation{}, none
	}
	d, err := o.deps.Record.DeferredStep(ctx, id)
	if errors.Is(err, federation.ErrNotFound) {
		return Explanation{}, none
	}
	if err != nil {
		return Explanation{}, fmt.Errorf("look up deferred event: %w", err)
	}
	view, err := o.deps.Gateway.View(ctx, d.Event.Handoff)
	if err != nil {
		return Explanation{}, fmt.Errorf("read handoff %s: %w", d.Event.Handoff, err)
	}
	ev := d.Event
	e := Explanation{
		EventID: ev.ID, HandoffID: ev.Handoff, Verb: ev.Verb, From: ev.From, For: ev.For, Identity: bridge.LookingUp,
		Provenance: ev.Provenance, Verdict: federation.Unverifiable.String(), Why: d.Reason,
		Document: ev.Signature.Document, Signature: ev.Signature.Text, Scheme: ev.Dialect,
		Key: ExplainedKey{KeyID: ev.Signature.KeyID}, Standing: view.State,
		Hops: []Hop{{What: "received", Via: d.Origin, Who: cmp.Or(ev.Arrival.Name, string(ev.Actor())), Time: Moment(ev.Arrival.Received)}},
		Next: []Next{{What: contract.Judgement, Attempts: d.Tried, LastError: d.Reason, Time: Moment(d.Next)}},
	}
	return e, nil
}

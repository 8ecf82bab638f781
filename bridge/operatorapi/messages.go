package operatorapi

import (
	"context"
	"fmt"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// messages returns the private text that names a handoff.
func (o *Operator) messages(ctx context.Context, id federation.HandoffID) ([]contract.Message, error) {
	found, err := o.deps.Gateway.About(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	var shown []contract.Message
	for _, e := range found {
		ev := e.Event
		shown = append(shown, contract.Message{
			ID: ev.ID, From: ev.Actor(), To: ev.To, Name: o.deps.Gateway.Name(ctx, ev.Actor()), Link: ev.Arrival.Link,
			Time: contract.Moment(ev.Time()), Text: ev.Text(),
		})
	}
	return shown, nil
}

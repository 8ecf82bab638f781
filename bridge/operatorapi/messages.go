package operatorapi

import (
	"context"
	"fmt"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// Messages reads private text.
type Messages interface {
	// About returns the messages that name a handoff, oldest first. It blocks on the record, and
	// its error is that of the record.
	About(ctx context.Context, id federation.HandoffID) ([]federation.Entry, error)
}

// messages returns the private text that names a handoff.
func (o *Operator) messages(ctx context.Context, id federation.HandoffID) ([]contract.Message, error) {
	if o.deps.Messages == nil {
		return nil, nil
	}
	found, err := o.deps.Messages.About(ctx, id)
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

package handoffs

import (
	"fmt"

	"baton/federation"
)

// DecodeEvent reads the body of an event.
func DecodeEvent(body []byte) (federation.Event, error) {
	var ev federation.Event
	if err := federation.DecodeJSON(body, &ev); err != nil {
		return federation.Event{}, fmt.Errorf("decode event: %w", err)
	}
	return ev, nil
}

// DecodeView reads a view.
func DecodeView(text []byte) (federation.View, error) {
	var view federation.View
	if err := federation.DecodeJSON(text, &view); err != nil {
		return federation.View{}, fmt.Errorf("decode view: %w", err)
	}
	return view, nil
}

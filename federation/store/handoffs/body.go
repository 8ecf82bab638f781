package handoffs

import (
	"fmt"

	"github.com/go-json-experiment/json/v1"

	"baton/federation"
)

// Events and views are kept as encoding/json writes them, and read as it reads them, by
// the engine of its next version: to read the body of a step is most of what it costs to
// read a step, and with that one a third.

// DecodeEvent reads the body of an event.
func DecodeEvent(body []byte) (federation.Event, error) {
	var ev federation.Event
	if err := json.Unmarshal(body, &ev); err != nil {
		return federation.Event{}, fmt.Errorf("decode event: %w", err)
	}
	return ev, nil
}

// DecodeView reads a view.
func DecodeView(text []byte) (federation.View, error) {
	var view federation.View
	if err := json.Unmarshal(text, &view); err != nil {
		return federation.View{}, fmt.Errorf("decode view: %w", err)
	}
	return view, nil
}

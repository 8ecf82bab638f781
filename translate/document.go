package translate

import (
	"encoding/json"
	"errors"
	"fmt"

	"baton/federation"
)

// FromDocument reads a canonical document, in either dialect, back into the step
// that it was signed as: the fields, the signer, the venue and the id. What the
// fields say is for the codec of the dialect to read, from [Wire].
//
// spec: handofftag "Canonical document"
func FromDocument(document string) (federation.Event, error) {
	var fields map[string]string
	if err := json.Unmarshal([]byte(document), &fields); err != nil {
		return federation.Event{}, fmt.Errorf("read document: %w", err)
	}
	from, err := federation.ParseDID(fields["from"])
	if err != nil {
		return federation.Event{}, fmt.Errorf("read document: %w", err)
	}
	ev := federation.Event{From: from, Venue: fields["target"], Fields: fields}
	if ev.Venue == "" {
		return federation.Event{}, errors.New("read document: it names no target")
	}
	if text, stamped := fields["id"]; stamped {
		if ev.ID, err = federation.ParseEventID(text); err != nil {
			return federation.Event{}, fmt.Errorf("read document: %w", err)
		}
		ev.Stamped = true
	}
	for _, name := range []string{"from", "target", "id"} {
		delete(fields, name)
	}
	return ev, nil
}

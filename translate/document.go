package translate

import (
	"errors"
	"fmt"

	"baton/federation"
)

// FromDocument reads a canonical document, in either dialect, back into the step
// that it was signed as: the fields, the signer, the venue and the id. What the
// fields say is for the codec of the dialect to read, from [Wire]. A document that repeats a
// member, or has one that is no string, is an error: two readers could take it for two steps.
//
// spec: handofftag "Canonical document"
func FromDocument(document string) (federation.Event, error) {
	fields, err := readFields(document)
	if err != nil {
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

// readFields reads the members of a document, all of them strings.
func readFields(document string) (map[string]string, error) {
	if err := federation.ExactJSON([]byte(document)); err != nil {
		return nil, err
	}
	var values map[string]*string
	if err := federation.DecodeJSON([]byte(document), &values); err != nil {
		return nil, err
	}
	fields := make(map[string]string, len(values))
	for name, value := range values {
		if value == nil {
			return nil, fmt.Errorf("%q is null", name)
		}
		fields[name] = *value
	}
	return fields, nil
}

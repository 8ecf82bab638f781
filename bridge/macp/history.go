package macp

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"baton/translate/macpmode"
	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// readEntry reads an entry of the journal of a session.
func readEntry(text []byte) (*historyv1.Entry, error) {
	entry := &historyv1.Entry{}
	if err := proto.Unmarshal(text, entry); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return entry, nil
}

// shownEnvelope returns the envelope of an entry, and whether it is on the stream.
func shownEnvelope(text []byte) (*macpv1.Envelope, bool, error) {
	entry, err := readEntry(text)
	if err != nil || entry.GetSource() != historyv1.Source_SOURCE_PARTICIPANT {
		return nil, false, err
	}
	env, err := macpmode.EnvelopeOf(entry)
	return env, true, err
}

// envelopeOf reads a serialized envelope.
func envelopeOf(text []byte) (*macpv1.Envelope, error) {
	env := &macpv1.Envelope{}
	if err := proto.Unmarshal(text, env); err != nil {
		return nil, fmt.Errorf("read envelope: %w", err)
	}
	return env, nil
}

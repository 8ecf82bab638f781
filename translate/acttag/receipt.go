package acttag

import (
	"baton/federation"
	"baton/translate"
)

// DecodeFromHome reads one message as [Codec.Decode] does. It also reads the receipt of a
// home, which is no step and which only a home may write.
//
// spec: freeq-act "Receipts"
func (Codec) DecodeFromHome(m translate.Tagged) (federation.Event, error) {
	return decode(m, readAnyVerb)
}

func readAnyVerb(ev *federation.Event, own map[string]string) error {
	if federation.Verb(own[tagVerb]) != federation.Confirm {
		return readVerb(ev, own)
	}
	ev.Verb = federation.Confirm
	text, there := own[tagSubject]
	if !there {
		return translate.Missing(*ev, tagSubject)
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		return translate.Malformed(*ev, tagSubject, "want a ULID in upper case")
	}
	ev.Subject = id
	return nil
}

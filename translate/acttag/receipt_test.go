package acttag_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/acttag"
)

func TestReceiptIsReadOnlyFromItsLink(t *testing.T) {
	const subject = "01K9ZQ0000000000000000001A"
	tags := map[string]string{
		"+freeq.at/act": "handoff", "+freeq.at/act-verb": "confirm", "+freeq.at/act-id": "01K9ZQ0000000000000000000H",
		"+freeq.at/act-subject": subject, "+freeq.at/from": "did:web:irc.example", "+freeq.at/eventid": "01K9ZQ0000000000000000002B",
	}
	m := translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: tags}
	ev, err := acttag.Codec{}.DecodeFromHome(m)
	if err != nil || ev.Verb != federation.Confirm || ev.Subject.String() != subject || ev.Fields["act-subject"] != subject {
		t.Errorf("read %+v, %v", ev, err)
	}
	if _, err := (acttag.Codec{}).Decode(m); codeOf(err) != federation.WrongSender {
		t.Errorf("from anybody: %v, want wrong-sender", err)
	}
	for value, want := range map[string]federation.RefusalCode{"": federation.MissingRequirement, "x": federation.InvalidTag} {
		changed := maps.Clone(tags)
		if changed["+freeq.at/act-subject"] = value; value == "" {
			delete(changed, "+freeq.at/act-subject")
		}
		if _, err := (acttag.Codec{}).DecodeFromHome(translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: changed}); codeOf(err) != want {
			t.Errorf("subject %q: %v, want %s", value, err, want)
		}
	}
}

func codeOf(err error) federation.RefusalCode {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return refused.Code
	}
	return ""
}

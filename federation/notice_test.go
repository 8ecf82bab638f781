package federation_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestNoticeNamesTheStateOfItsStep(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01M84B2QQTTV88PVJ34XV13FQ4")
	if err != nil {
		t.Fatal(err)
	}
	step := federation.Event{ID: id, Handoff: id, Verb: federation.Offer}
	const prefix = "your offer of handoff 13FQ4 "
	for want, n := range map[string]federation.Notice{
		"has not reached lab yet and is tried on: the link is down":                               {Kind: federation.NoticeDelayed, To: "lab", Why: "the link is down"},
		"has not reached its recipient yet and is tried on: no home is known to have its mailbox": {Kind: federation.NoticeDelayed, To: federation.UnroutedLink},
		"has not reached its recipient yet and is tried on: b.test is no peer":                    {Kind: federation.NoticeDelayed, To: federation.UnroutedLink, Why: "b.test is no peer"},
		"has reached did:web:b.test":                              {Kind: federation.NoticeDelivered, To: "did:web:b.test"},
		"cannot be delivered to lab: it was pending for too long": {Kind: federation.NoticeUndeliverable, To: "lab", Why: "it was pending for too long"},
		"was refused: the handoff is over":                        {Kind: federation.NoticeRefused, To: "lab", Why: "the handoff is over"},
	} {
		n.Event = step
		if got := strings.Replace(n.Sentence(), id.Short(), "13FQ4", 1); got != prefix+want {
			t.Errorf("got %q, want %q", got, prefix+want)
		}
	}
}

package federation_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

func TestDIDHasOneSpelling(t *testing.T) {
	for _, s := range []string{
		"did:plc:ewvi7nxzyoun6zhxrhs64oiz", "did:web:gw.example", "did:web:gw.example%3A8443:airc:scout_7",
		"did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S", "did:x1:a%2Fb",
	} {
		got, err := federation.ParseDID(s)
		if err != nil || string(got) != s {
			t.Errorf("%s: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "did", "did:", "did:plc", "did:plc:", "did:a:b:", "plc:x", "DID:plc:x", "did:PLC:x", "did:pl-c:x", "did:plc:x y", "did:plc:x/y",
		"did:plc:x#key", "did:plc:x?y", "did:plc:é", "did:plc:%2f", "did:plc:%zz", "did:plc:%2", "did:web:GW.example", "did:plc:" + strings.Repeat("x", 600),
	} {
		if got, err := federation.ParseDID(s); err == nil {
			t.Errorf("%q was read as %s", s, got)
		}
	}
}

func TestDIDHashIsStable(t *testing.T) {
	if got := federation.DID("did:web:freeq.at:bots:factory").Hash(); got != "l57chsxpyrjlo673eggecfxicj" {
		t.Errorf("hash %s", got)
	}
}

func TestEventIDHasOneSpelling(t *testing.T) {
	const good = "01K9ZQ0000000000000000000H"
	id, err := federation.ParseEventID(good)
	if err != nil || id.String() != good || id.Short() != "00000H" || id.IsZero() {
		t.Errorf("%s, %v", id, err)
	}
	for _, s := range []string{"", strings.ToLower(good), good[1:], good + "0", "81K9ZQ0000000000000000000H", "01K9ZQ000000000000000000IL", "01K9ZQ00000000000000000 00"} {
		if got, err := federation.ParseEventID(s); err == nil {
			t.Errorf("%q was read as %s", s, got)
		}
	}
	if _, err := federation.ParseEventID(strings.ToLower(good)); !errors.Is(err, federation.ErrNotCanonical) {
		t.Errorf("lower case: %v, want ErrNotCanonical", err)
	}
}

func TestEventIDHoldsItsTime(t *testing.T) {
	at := time.UnixMilli(1_790_000_000_123).UTC()
	id, err := federation.NewEventID(at, bytes.NewReader(make([]byte, 10)))
	if err != nil || !id.Time().Equal(at) {
		t.Errorf("%s is of %s (%v), want %s", id, id.Time(), err, at)
	}
	text, err := id.MarshalText()
	var again federation.EventID
	if err != nil || again.UnmarshalText(text) != nil || again != id {
		t.Errorf("%s became %s", id, again)
	}
	if (federation.EventID{}).String() != "" || again.UnmarshalText(nil) != nil || !again.IsZero() {
		t.Error("no id is not written as nothing")
	}
}

func TestExactJSONRefusesAmbiguousInput(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a":[1,-1.5e3,true,null,"x",{"b":{}}]}`: true, `9007199254740992`: true, `-9007199254740992`: true, `"😀"`: true,
		`9007199254740993`: true, `1e300`: true, `{"a":[-1E+21]}`: true, `1e-400`: true, `1e400`: false, `[-1e309]`: false, `{"a":1,"a":1}`: false, `[{"a":1,"a":1}]`: false, `[{"\u005f_proto__":1}]`: false, `{"x":{"constructor":1}}`: false, `{"prototype":1}`: false, `"prototype"`: true,
		`"\ud83d\ude00"`: true, `"\\ud83d"`: true, `"\ud83d"`: false, `"\ude00\ud83d"`: false, `{"\ud83dx":1}`: false, ` [ ] `: true, `nul`: false, `[1,]`: false, `01`: false,
		`{} 1`: false, ``: false, `{"a"`: false, "\"\xff\"": false, strings.Repeat("[", 70) + strings.Repeat("]", 70): false,
	} {
		if err := federation.ExactJSON([]byte(text)); (err == nil) != ok {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func TestLosslessJSONRefusesRoundedNumbers(t *testing.T) {
	for text, ok := range map[string]bool{
		`[9007199254740992,-9007199254740992,1.5,1e15]`: true, `9007199254740993`: false, `-9007199254740994`: false, `1e300`: false,
		`{"a":1,"a":1}`: false,
	} {
		if err := federation.LosslessJSON([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestViewOthersReturnsTheOtherParties(t *testing.T) {
	v := federation.View{Offerer: "did:a:1", Offeree: "did:a:2", Assignee: "did:a:2"}
	if got := v.Others("did:a:1"); len(got) != 1 || got[0] != "did:a:2" {
		t.Errorf("others %v", got)
	}
	if got := v.Others("did:a:3"); len(got) != 2 {
		t.Errorf("others of a stranger %v", got)
	}
}

func TestRefusalErrorHasCodeAndDetail(t *testing.T) {
	for code := range strings.FieldsSeq("need-signature wrong-sender deadline-passed eventid-clock-skew") {
		if s := federation.RefusalCode(code).Sentence(); s == "the step was refused" {
			t.Errorf("%s has no sentence", code)
		}
	}
	if got := federation.EventIDClockSkew.Upper(); got != "EVENTID_CLOCK_SKEW" {
		t.Errorf("on IRC %s", got)
	}
}

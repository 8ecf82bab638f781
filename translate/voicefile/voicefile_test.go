package voicefile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/voicefile"
)

const secret = "a secret of bob and alice"

func step(t *testing.T, context string) translate.Step {
	t.Helper()
	id, err := federation.ParseEventID("01K9ZQ0000000000000000000H")
	if err != nil {
		t.Fatal(err)
	}
	ev := federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, From: "did:plc:bob", To: "did:web:gw.example:dir:calls:alice", Title: "naïve \"☂\" 🌂",
		Context: context, Caps: []string{"web-search"}, Deadline: at(600), Priority: "high",
	}
	view := federation.View{ID: id, Home: "gw.example", State: federation.Offered, Version: 1, Deadline: ev.Deadline}
	return translate.Step{Entry: federation.Entry{Event: ev, Version: 1, State: federation.Offered}, View: view}
}

func at(seconds int) time.Time {
	return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func encoded(t *testing.T, context string) ([]byte, voicefile.File) {
	t.Helper()
	text, file, err := voicefile.Encode(voicefile.Offer{Step: step(t, context), From: "bob", To: "alice", Now: at(0), Lifetime: time.Hour}, secret)
	if err != nil {
		t.Fatal(err)
	}
	return text, file
}

func TestWriteRoundTripsAnOffer(t *testing.T) {
	t.Parallel()
	for context, want := range map[string]string{
		"":                      "",
		`{"topic":"X","n":1.0}`: `{"transcript":[],"n":1.0,"topic":"X"}`,
		`{"transcript":[{"role":"user","text":"hi"}],"context_summary":"s"}`: `{"transcript":[{"role":"user","text":"hi"}],"context_summary":"s"}`,
		`[{"role":"user","text":"hi"}]`:                                      `{"transcript":[{"role":"user","text":"hi"}]}`,
		"https://gw.example/blob/cap/x":                                      "",
		`{"transcript":"no list"}`:                                           "",
		`{"hmac":"x"}`:                                                       "",
	} {
		text, written := encoded(t, context)
		sealed, err := voicefile.Read(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		read, err := sealed.Open([]string{"the secret before this one", secret}, at(10), time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(written, read); diff != "" {
			t.Errorf("%s: (-written +read):\n%s", context, diff)
		}
		if read.Context != want || read.Reason != "naïve \"☂\" 🌂" || !read.Expires.Equal(at(600)) || !read.Initiated.Equal(at(0)) {
			t.Errorf("%s is read as %+v, want the context %s", context, read, want)
		}
		carry := voicefile.ReadCarry(read.Carry)
		if carry.ID != "01K9ZQ0000000000000000000H" || carry.Deadline != at(600).Unix() || carry.Priority != "high" || len(carry.Caps) != 1 {
			t.Errorf("the carry is %+v", carry)
		}
		if want == "" && carry.Context != context {
			t.Errorf("the context %s is lost: the carry has %q", context, carry.Context)
		}
	}
}

// A change of any member at any depth, and a member more or less, break the HMAC.
func TestHMACCoversEveryMember(t *testing.T) {
	t.Parallel()
	text, _ := encoded(t, `{"topic":{"deep":[1,"x",null,true]},"transcript":[{"role":"user","text":"hi","ts":"now"}]}`)
	var said map[string]any
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	changes := 0
	check := func(what string) {
		changes++
		changed, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := voicefile.Read(changed)
		if err == nil && sealed.Verified(secret) {
			t.Errorf("the HMAC holds after a change of %s", what)
		}
	}
	var flip func(path string, value any, set func(any))
	flip = func(path string, value any, set func(any)) {
		switch v := value.(type) {
		case map[string]any:
			for name, inner := range v {
				flip(path+"."+name, inner, func(x any) { v[name] = x })
				delete(v, name)
				check("missing " + path + "." + name)
				v[name] = inner
			}
			v["more"] = 1
			check("a member more in " + path)
			delete(v, "more")
		case []any:
			for i, inner := range v {
				flip(fmt.Sprintf("%s[%d]", path, i), inner, func(x any) { v[i] = x })
			}
		default:
			set("flipped")
			check(path)
			set(value)
		}
	}
	flip("", said, func(any) {})
	if changes < 40 {
		t.Errorf("only %d changes", changes)
	}
	if whole, err := json.Marshal(said); err != nil || !verified(t, whole) {
		t.Errorf("the file itself is not good: %v", err)
	}
}

func verified(t *testing.T, text []byte) bool {
	t.Helper()
	sealed, err := voicefile.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return sealed.Verified(secret)
}

func TestReadRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", "[]", `"x"`, "null", `{"a":1}{}`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, "\xff", strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		if _, err := voicefile.Read([]byte(text)); !errors.Is(err, voicefile.ErrUnreadable) {
			t.Errorf("%q is read: %v", text, err)
		}
	}
}

func TestWriteRefusesAnExpiredOffer(t *testing.T) {
	t.Parallel()
	_, _, err := voicefile.Encode(voicefile.Offer{Step: step(t, ""), From: "bob", To: "alice", Now: at(700), Lifetime: time.Hour}, secret)
	if codeOf(err) != voicefile.Expired {
		t.Errorf("the error is %v", err)
	}
}

func TestSidecarRoundTrips(t *testing.T) {
	t.Parallel()
	want := voicefile.Reason{Code: voicefile.Declined, Detail: `no "time"`, At: at(0)}
	if diff := cmp.Diff(want, voicefile.ReadReason(want.Bytes())); diff != "" {
		t.Error(diff)
	}
	if got := voicefile.ReadReason([]byte("nonsense")); got != (voicefile.Reason{}) {
		t.Errorf("nonsense is read as %+v", got)
	}
}

// The name of a file never has a text of its author in it but the checked caller_hash.
func TestClaimedPathContainsNoID(t *testing.T) {
	t.Parallel()
	_, file := encoded(t, "")
	if name := file.ClaimName("gw.test"); name != file.Caller+"-"+file.Key+"-3d85f3b2.json" || strings.Contains(name, "/") {
		t.Errorf("the name is %s", name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"hmac":"x","a":[1.5e3,"\u00e5"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		sealed, err := voicefile.Read(text)
		if err != nil {
			return
		}
		if _, err := sealed.Open([]string{secret}, at(0), time.Minute); err == nil {
			t.Errorf("%q is opened without the secret", text)
		}
	})
}

package federation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
)

func TestSplitTextCutsNoCharacter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"one line":                       {"one line"},
		"two\nlines\r\n":                 {"two", "lines"},
		"\n \n":                          nil,
		"aaaa bbbb cccc":                 {"aaaa", "bbbb", "cccc"},
		"aaaaaaaaaa":                     {"aaaaaaaa", "aa"},
		"ääää":                           {"ääää"},
		"xääääx":                         {"xäää", "äx"},
		"\U0001F600\U0001F600\U0001F600": {"\U0001F600\U0001F600", "\U0001F600"},
	} {
		if diff := cmp.Diff(want, federation.SplitText(text, 8)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	long := strings.Repeat("ä€\U0001F600 ", 400)
	for _, part := range federation.SplitText(long, 400) {
		if len(part) > 400 || !utf8.ValidString(part) {
			t.Errorf("%d bytes, valid %t", len(part), utf8.ValidString(part))
		}
	}
}

// Records, triggers and earlier clients of the API read text under "event", in the form of a step.
func TestTextJSONHasTheFormOfAnEvent(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01M84B2QQTTV88PVJ34XV13FQ4")
	if err != nil {
		t.Fatal(err)
	}
	const alice, bob, key = federation.DID("did:web:a.example"), federation.DID("did:web:b.example"), federation.DID("did:key:z6Mk")
	text := &federation.Text{
		ID: id, Order: federation.Conversation(alice, bob), From: key, Author: alice, To: bob, Venue: federation.PrivateVenue(alice, bob), Body: "hello",
		About: id, Fields: map[string]string{federation.Introduces: "1"}, Arrival: federation.Arrival{Network: "rest", Link: "rest"},
	}
	const event = `"event":{"id":"01M84B2QQTTV88PVJ34XV13FQ4","handoff":"ORDER","kind":"message","verb":"message","from":"did:key:z6Mk",` +
		`"for":"did:web:a.example","to":"did:web:b.example","venue":"dm:did:web:a.example,did:web:b.example","dialect":"","note":"hello",` +
		`"reply_to":"01M84B2QQTTV88PVJ34XV13FQ4","fields":{"introduces":"1"},"provenance":"vouched","signature":{},` +
		`"arrival":{"network":"rest","link":"rest","received":"0001-01-01T00:00:00Z"}}`
	member := strings.Replace(event, "ORDER", text.Order.String(), 1)
	written, err := json.Marshal(federation.Entry{Text: text, State: "said"})
	if want := `{` + member + `,"version":0,"state":"said","filed":"0001-01-01T00:00:00Z"}`; err != nil || string(written) != want {
		t.Errorf("an entry is written as\n%s, %v, want\n%s", written, err, want)
	}
	var entry federation.Entry
	if err := federation.DecodeJSON(written, &entry); err != nil || !cmp.Equal(entry, federation.Entry{Text: text, State: "said"}) {
		t.Errorf("it is read as %+v, %v", entry, err)
	}
	written, err = json.Marshal(federation.Notice{Kind: federation.NoticeDelayed, Text: text})
	if want := `{"kind":"delayed",` + member + `,"at":"0001-01-01T00:00:00Z"}`; err != nil || string(written) != want {
		t.Errorf("a notice is written as\n%s, %v, want\n%s", written, err, want)
	}
	var notice federation.Notice
	if err := federation.DecodeJSON(written, &notice); err != nil || !cmp.Equal(notice, federation.Notice{Kind: federation.NoticeDelayed, Text: text}) {
		t.Errorf("it is read as %+v, %v", notice, err)
	}
	if got, want := notice.Sentence(), "your message "+id.Short()+" has not reached its recipient yet and is tried on"; got != want || notice.Reader() != alice {
		t.Errorf("%s reads %q, want %q", notice.Reader(), got, want)
	}
}

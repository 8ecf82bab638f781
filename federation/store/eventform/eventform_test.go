package eventform_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/eventform"
	"github.com/baton-gateway/baton/translate/dialect"
)

const (
	ada   federation.DID = "did:plc:adaadaadaadaadaadaadaada"
	bob   federation.DID = "did:plc:bobbobbobbobbobbobbobbob"
	venue                = "dm:" + string(ada) + "," + string(bob)
)

var (
	private  = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	key      = federation.SigningKey{Public: private.Public().(ed25519.PublicKey), DID: "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd", Sign: sign}
	received = time.Date(2026, 7, 1, 12, 30, 0, 123456789, time.UTC)
)

func sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(private, message), nil
}

func id(n byte) federation.EventID {
	return federation.EventID{1, 0x9a, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, n}
}

// step returns an unsigned step in a dialect, an offer with all members or else one of another verb.
func step(d federation.Dialect, verb federation.Verb) federation.Event {
	ev := federation.Event{
		ID: id(2), Handoff: id(1), Kind: federation.Handoff, Verb: verb, From: ada, Venue: venue, Dialect: d, Note: "as <agreed> & \"done\"\u2028",
		ReplyTo: "msg~1", Provenance: federation.Signed, Stamped: true,
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: "ada", MessageID: "msgid-1", Received: received},
	}
	if verb == federation.Offer {
		ev.ID, ev.To, ev.Title, ev.Priority, ev.Caps = ev.Handoff, bob, "Review it", "high", []string{"web-search", "go/1.26"}
		ev.Deadline, ev.Context, ev.Replaces = time.Unix(1788000000, 0).UTC(), `{"q":"X\u0000"}`, id(7)
	}
	if verb == federation.Confirm {
		ev.Subject = id(3)
	}
	return ev
}

func signed(tb testing.TB, ev federation.Event, further map[string]string) federation.Event {
	tb.Helper()
	ev.Fields, _ = dialect.Write(ev)
	maps.Copy(ev.Fields, further)
	var err error
	if !ev.Stamped { // as clients do that know no event IDs
		document, err := signing.Document(ev)
		if err != nil {
			tb.Fatal(err)
		}
		sig, _ := key.Sign(tb.Context(), []byte(document))
		ev.Signature = federation.Signature{Bytes: sig, Document: document, Key: key.Public, KeyID: federation.KeyID(key.Public), Text: "ed25519:" + strings.Repeat("A", 86) + "=="}
		return ev
	}
	if ev, err = signing.Seal(tb.Context(), key, ev); err != nil {
		tb.Fatal(err)
	}
	return ev
}

func vouched(tb testing.TB, ev federation.Event) federation.Event {
	tb.Helper()
	ev.From, ev.For, ev.Provenance = key.DID, ada, federation.Vouched
	source := sha256.Sum256([]byte("written"))
	ev.Evidence = &federation.Evidence{URL: "https://gw.example/evidence/ab?k=1", Digest: sha256.Sum256([]byte("served")), Bytes: []byte("served"), Source: source}
	return signed(tb, ev, nil)
}

func text(tb testing.TB, to federation.DID, fields map[string]string) federation.Event {
	tb.Helper()
	m := federation.Text{
		ID: id(9), Order: federation.Conversation(ada, to), From: key.DID, Author: ada, To: to, Venue: federation.PrivateVenue(ada, to),
		Body: "hello\n\x00 <b> \u2028 🚀", About: id(1), Fields: fields, Arrival: federation.Arrival{Network: "api", Link: "agents", Received: received},
		Evidence: &federation.Evidence{URL: "https://gw.example/evidence/cd", Digest: [32]byte{1}, Source: [32]byte{2}},
	}
	if to == "" {
		m.Venue, m.Order = "#ops", federation.ChatOrder("agents", "#ops")
	}
	m, err := signing.SealText(tb.Context(), key, m)
	if err != nil {
		tb.Fatal(err)
	}
	return m.Row()
}

func usual(tb testing.TB) map[string]federation.Event {
	tb.Helper()
	events := map[string]federation.Event{
		"private text":      text(tb, bob, nil),
		"text with a field": text(tb, bob, map[string]string{federation.Introduces: "ada"}),
		"a line of channel": text(tb, "", map[string]string{federation.Manner: federation.Action}),
	}
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		for _, verb := range []federation.Verb{federation.Offer, federation.Accept, federation.Progress, federation.Complete, federation.Expire, federation.Confirm} {
			ev := step(d, verb)
			events[string(d)+" "+string(verb)] = signed(tb, ev, nil)
			events[string(d)+" vouched "+string(verb)] = vouched(tb, ev)
		}
		bounty := step(d, "award")
		bounty.Kind, bounty.Accepts = "bounty", id(4)
		events[string(d)+" award"] = signed(tb, bounty, nil)
		bids := step(d, federation.Offer)
		bids.Kind, bids.BidDeadline = "bounty", time.Unix(1788000001, 0).UTC()
		events[string(d)+" bounty"] = signed(tb, bids, nil)
		events[string(d)+" unknown fields"] = signed(tb, step(d, federation.Accept), map[string]string{string(d) + "-x-odd": "a\tb\\ü\u2029\u0000", string(d) + "-future": ""})
	}
	unstamped := step(federation.HandoffTags, federation.Accept)
	unstamped.Stamped = false
	events["unstamped"] = signed(tb, unstamped, nil)
	spaced := signed(tb, step(federation.HandoffTags, federation.Offer), map[string]string{"handoff-task": "  Review it "})
	events["a title with space around it"] = spaced
	untitled := step(federation.ActTags, federation.Offer)
	untitled.Title = ""
	untitled = signed(tb, untitled, nil)
	untitled.Title = "untitled"
	events["untitled"] = untitled
	return events
}

func odd(tb testing.TB) map[string]federation.Event {
	tb.Helper()
	offer := signed(tb, step(federation.HandoffTags, federation.Offer), nil)
	change := func(ev federation.Event, how func(*federation.Event)) federation.Event {
		how(&ev)
		return ev
	}
	unsigned := step(federation.HandoffTags, federation.Accept)
	everywhere := vouched(tb, step(federation.ActTags, federation.Offer))
	everywhere.Arrival = federation.Arrival{
		Network: "relay", Link: "peer", Home: "a.example", Path: []federation.HomeID{"b.example", "a.example"}, RemoteVenue: true, ReadsInbox: true, Name: "ada",
		MessageID: "m", Received: received, ActingFor: bob, Recipient: ada, ViaCommand: true, Orphaned: true, Voucher: &federation.Voucher{Signature: "ed25519:k:s"}, AcceptedFrom: bob,
		Place: federation.ChannelRef{Link: "lab", Venue: "#ops"},
	}
	return map[string]federation.Event{
		"zero":                   {},
		"unsigned":               unsigned,
		"erased":                 offer.Erase(received),
		"erased vouched":         vouched(tb, step(federation.ActTags, federation.Complete)).Erase(received),
		"erased text":            text(tb, bob, nil).Erase(received),
		"erased unsigned":        unsigned.Erase(received),
		"a longer note":          change(vouched(tb, step(federation.ActTags, federation.Complete)), func(ev *federation.Event) { ev.Note = strings.Repeat("é", 900) }),
		"another title":          change(offer, func(ev *federation.Event) { ev.Title = "another" }),
		"no title":               change(offer, func(ev *federation.Event) { ev.Title = "" }),
		"other fields":           change(offer, func(ev *federation.Event) { ev.Fields = map[string]string{"handoff": "offer"} }),
		"no fields":              change(offer, func(ev *federation.Event) { ev.Fields = nil }),
		"a deadline with a zone": change(offer, func(ev *federation.Event) { ev.Deadline = ev.Deadline.In(time.FixedZone("", 3600)) }),
		"received elsewhere":     change(offer, func(ev *federation.Event) { ev.Arrival.Received = received.In(time.FixedZone("", -7200)) }),
		"received never":         change(offer, func(ev *federation.Event) { ev.Arrival.Received = time.Time{} }),
		"a document of prose":    change(offer, func(ev *federation.Event) { ev.Signature.Document = "pay eve" }),
		"a document with spaces": change(offer, func(ev *federation.Event) { ev.Signature.Document = `{ "from": "x" }` }),
		"a document of numbers":  change(offer, func(ev *federation.Event) { ev.Signature.Document = `{"from":1}` }),
		"a document cut off":     change(offer, func(ev *federation.Event) { ev.Signature.Document = offer.Signature.Document[:30] }),
		"no provenance":          change(offer, func(ev *federation.Event) { ev.Provenance = "" }),
		"vouched by hand":        change(offer, func(ev *federation.Event) { ev.Provenance = federation.Vouched }),
		"another key":            change(offer, func(ev *federation.Event) { ev.Signature.KeyID = "k1" }),
		"no key":                 change(offer, func(ev *federation.Event) { ev.Signature.Key = nil }),
		"another signature":      change(offer, func(ev *federation.Event) { ev.Signature.Text = "ed25519:k:s" }),
		"zero evidence":          change(offer, func(ev *federation.Event) { ev.Evidence = &federation.Evidence{} }),
		"everywhere":             everywhere,
	}
}

func encoded(tb testing.TB, ev federation.Event) eventform.Columns {
	tb.Helper()
	var said time.Time
	if at := ev.ShownAt(); !at.IsZero() {
		said = time.Unix(0, at.UnixNano()).UTC()
	}
	c, err := eventform.Encode(ev, ev.Arrival.MessageID, said)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// checkKept checks that an event is read from its columns as from JSON of the whole event.
func checkKept(t *testing.T, ev federation.Event) {
	t.Helper()
	text, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	var want federation.Event
	if err := federation.DecodeJSON(text, &want); err != nil {
		t.Fatal(err)
	}
	c := encoded(t, ev)
	if string(c.Document) != ev.Signature.Document || (c.Document == nil) != (ev.Signature.Document == "") {
		t.Errorf("the document is %q", c.Document)
	}
	got, err := eventform.Decode(c)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", c.Body, err, diff)
	}
	if again, err := json.Marshal(got); err != nil || string(again) != string(text) {
		t.Errorf("as JSON it was\n%s\nand is\n%s, %v", text, again, err)
	}
}

func TestDecodeReturnsTheEventThatWasEncoded(t *testing.T) {
	for _, events := range []map[string]federation.Event{usual(t), odd(t)} {
		for name, ev := range events {
			t.Run(name, func(t *testing.T) { checkKept(t, ev) })
		}
	}
}

func TestEncodeWritesNoMemberTwice(t *testing.T) {
	for name, ev := range usual(t) {
		t.Run(name, func(t *testing.T) {
			c := encoded(t, ev)
			var members map[string]json.RawMessage
			if err := federation.DecodeJSON(c.Body, &members); err != nil {
				t.Fatal(err)
			}
			may := []string{"network", "link", "name", "key", "sig", "source", "received"} // the last one of receipts
			switch {
			case !ev.Stamped && ev.Dialect != "":
				may = append(may, "id", "signature")
			case ev.Verb == federation.TextVerb:
				may = append(may, "evidence", "channel")
			}
			for member := range members {
				if !slices.Contains(may, member) {
					t.Errorf("the body has %s: %s", member, c.Body)
				}
			}
		})
	}
}

// TestDecodeReturnsEveryMember changes one member at a time: a member that a later version adds is
// not forgotten.
func TestDecodeReturnsEveryMember(t *testing.T) {
	for name, base := range map[string]federation.Event{"signed": signed(t, step(federation.ActTags, federation.Offer), nil), "zero": {}} {
		for _, at := range []func(*federation.Event) reflect.Value{
			func(ev *federation.Event) reflect.Value { return reflect.ValueOf(ev).Elem() },
			func(ev *federation.Event) reflect.Value { return reflect.ValueOf(&ev.Signature).Elem() },
			func(ev *federation.Event) reflect.Value { return reflect.ValueOf(&ev.Arrival).Elem() },
		} {
			for i := range at(&base).NumField() {
				ev := base
				member := at(&ev).Type().Field(i).Name
				if !change(at(&ev).Field(i)) {
					continue
				}
				t.Run(name+" "+member, func(t *testing.T) { checkKept(t, ev) })
			}
		}
	}
}

func change(v reflect.Value) bool {
	switch value := v.Addr().Interface().(type) {
	case *string:
		*value += "x"
	case *federation.EventID:
		*value = id(77)
	case *time.Time:
		*value = received.Add(time.Hour)
	case *[]string:
		*value = []string{"other"}
	case *[]byte:
		*value = []byte("other")
	case *map[string]string:
		*value = map[string]string{"other": "field"}
	case *bool:
		*value = !*value
	case **federation.Evidence:
		*value = &federation.Evidence{URL: "https://x.example", Digest: [32]byte{3}, Source: [32]byte{4}}
	case **federation.Erasure:
		*value = &federation.Erasure{At: received, Document: [32]byte{5}, Digest: [32]byte{6}}
	case **federation.Voucher:
		*value = &federation.Voucher{Signature: "ed25519:k:s"}
	case *[]federation.HomeID:
		*value = []federation.HomeID{"a.example"}
	case *federation.ChannelRef:
		*value = federation.ChannelRef{Link: "lab", Venue: "#ops"}
	case *federation.Signature, *federation.Arrival: // member by member
		return false
	default:
		if v.Kind() != reflect.String {
			panic("a member of type " + v.Type().String())
		}
		v.SetString(v.String() + "x")
	}
	return true
}

func TestEncodeKeepsWhatOtherColumnsHoldDifferently(t *testing.T) {
	ev := signed(t, step(federation.ActTags, federation.Offer), nil)
	c, err := eventform.Encode(ev, "another", received.Truncate(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	got, err := eventform.Decode(c)
	if err != nil || got.Arrival.MessageID != ev.Arrival.MessageID || !got.Arrival.Received.Equal(received) {
		t.Errorf("%s: %+v, %v", c.Body, got.Arrival, err)
	}
}

func TestDecodeRefusesAnotherForm(t *testing.T) {
	ev := signed(t, step(federation.ActTags, federation.Offer), nil)
	whole, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	good := encoded(t, ev)
	for name, c := range map[string]eventform.Columns{
		"no JSON":                  {Document: good.Document, Body: []byte("{")},
		"no body":                  {Document: good.Document},
		"a whole event":            {Body: whole},
		"no document":              {Body: good.Body},
		"a document of prose":      {Document: []byte("pay eve"), Body: good.Body},
		"a document with a rest":   {Document: append(slices.Clone(good.Document), ' '), Body: good.Body},
		"a document without a end": {Document: good.Document[:len(good.Document)-1], Body: good.Body},
		"half a digest":            {Document: good.Document, Body: []byte(`{"source":"AAAA"}`)},
	} {
		if got, err := eventform.Decode(c); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, events := range []map[string]federation.Event{usual(f), odd(f)} {
		for _, ev := range events {
			c := encoded(f, ev)
			f.Add(c.Document, c.Body, c.Message, c.Said.UnixNano())
		}
	}
	f.Fuzz(func(t *testing.T, document, body []byte, message string, said int64) {
		ev, err := eventform.Decode(eventform.Columns{Document: document, Body: body, Message: message, Said: time.Unix(0, said).UTC()})
		if err != nil {
			return
		}
		text, err := json.Marshal(ev)
		if err != nil {
			return // a year that JSON cannot have
		}
		var want federation.Event
		if err := federation.DecodeJSON(text, &want); err != nil {
			return // text other than UTF-8 can repeat a member
		}
		if want.Signature.Document != ev.Signature.Document {
			return // a document other than UTF-8 is not filed
		}
		checkKept(t, want)
	})
}

func BenchmarkEvent(b *testing.B) {
	events := usual(b)
	for _, name := range []string{"handoff offer", "handoff vouched offer", "act accept", "private text"} {
		ev := events[name]
		c := encoded(b, ev)
		whole, err := json.Marshal(ev)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("encode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := eventform.Encode(ev, c.Message, c.Said); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(c.Document)+len(c.Body)), "bytes")
		})
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := eventform.Decode(c); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("whole/"+name, func(b *testing.B) { // as JSON of the whole event, for comparison
			b.ReportAllocs()
			for b.Loop() {
				var ev federation.Event
				if err := federation.DecodeJSON(whole, &ev); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(whole)), "bytes")
		})
	}
}

package dialect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

func signed(d federation.Dialect) federation.Event {
	id := federation.EventID{1}
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: "did:plc:a", To: "did:plc:b", Venue: "#ops",
		Dialect: d, Title: "Review it", Stamped: true, Provenance: federation.Signed, Signature: federation.Signature{Text: "ed25519:k:s"},
	}
	ev.Fields, _ = dialect.Write(ev)
	return ev
}

func TestDecodeRecognizesEachDialect(t *testing.T) {
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		want := signed(d)
		m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: want}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := dialect.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d, diff)
		}
	}
}

func TestDecodeIgnoresOtherTags(t *testing.T) {
	if _, err := dialect.Decode(translate.Tagged{Command: "TAGMSG", Target: "#ops"}); !errors.Is(err, translate.ErrNotHandoff) {
		t.Errorf("decode: %v", err)
	}
	if _, err := dialect.Encode(translate.Step{}); err == nil {
		t.Error("a step in no dialect was written")
	}
}

func TestDecodeCarriesUnknownTags(t *testing.T) {
	ev := signed(federation.HandoffTags)
	ev.Fields["handoff-x-trace"], ev.Fields["handoff-later"] = "t1", "new"

	same, losses := dialect.Rewrite(ev, federation.HandoffTags)
	if same["handoff-x-trace"] != "t1" || same["handoff-later"] != "new" || len(losses) != 0 {
		t.Errorf("within its dialect: %v, %v", same, losses)
	}
	ev.Dialect = federation.ActTags
	other, losses := dialect.Rewrite(ev, federation.HandoffTags)
	if other["act-x-trace"] != "t1" || other["act-title"] != "Review it" {
		t.Errorf("into the other: %v", other)
	}
	for name := range other {
		if !translate.InDialect(name, federation.ActTags) {
			t.Errorf("%s is none of its tags", name)
		}
	}
	if len(losses) != 1 || losses[0].Field != "handoff-later" {
		t.Errorf("losses %v, want handoff-later", losses)
	}
}

func TestWriteRoundTripsABountyInBothDialects(t *testing.T) {
	for from, to := range map[federation.Dialect]federation.Dialect{
		federation.ActTags: federation.HandoffTags, federation.HandoffTags: federation.ActTags,
	} {
		ev := signed(from)
		ev.Kind, ev.To, ev.BidDeadline, ev.Replaces = "bounty", "", time.Unix(1788000000, 0).UTC(), federation.EventID{9}
		ev.Fields, _ = dialect.Write(ev)
		price := string(from) + "-price"
		ev.Fields[price] = "10 EUR"
		ev.Dialect = to
		fields, losses := dialect.Rewrite(ev, from)
		if len(losses) != 1 || losses[0].Field != price {
			t.Errorf("%s: losses %v, want the price, which only its own tags have", from, losses)
		}
		want := ev
		want.Fields = fields
		m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: want}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := dialect.Decode(m)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s into %s: %v (-want +got):\n%s", from, to, err, diff)
		}
	}
}

func TestWriteReportsTagsThatDoNotFit(t *testing.T) {
	ev := signed(federation.HandoffTags)
	ev.Fields["handoff-x-long"] = strings.Repeat("x", 4000)
	fields, losses := dialect.Rewrite(ev, federation.HandoffTags)
	if _, there := fields["handoff-x-long"]; there || len(losses) != 1 {
		t.Errorf("%d losses, there %v", len(losses), there)
	}
}

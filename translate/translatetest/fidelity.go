package translatetest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// noted are the members of an event that no format carries: a gateway's notes about its arrival, and
// the form in which its signer wrote it.
func noted() []string {
	return []string{"handoff", "for", "fields", "stamped", "arrival"}
}

// NamesEachField checks that a fidelity table has the treatment of each field of a step, and names
// each field once per direction.
func NamesEachField(t *testing.T, table []Fidelity) {
	t.Helper()
	named := map[Way]map[string]bool{In: {}, Out: {}}
	for _, row := range table {
		if named[row.Way][row.Field] {
			t.Errorf("%s has two rows for the way %s", row.Field, row.Way)
		}
		named[row.Way][row.Field] = true
		if row.Place == NotTaken && row.Where == "" {
			t.Errorf("%s is lost without a reason", row.Field)
		}
	}
	for field := range reflect.TypeFor[federation.Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !named[Out][name] && !slices.Contains(noted(), name) {
			t.Errorf("the table does not say what becomes of %s", name)
		}
	}
}

// FullOffer returns an offer with a value in each field, and its view. The caller provides the
// context.
func FullOffer(context string) translate.Step {
	id := federation.EventID{1, 2, 3, 4, 5, 6, 7}
	ev := federation.Event{
		ID: id, Handoff: id, Kind: "handoff", Verb: federation.Offer, From: "did:plc:the-from", To: "did:plc:the-to", Venue: "#the-channel", Dialect: federation.HandoffTags,
		Title: "the title", Context: context, ContextHash: "the-hash", Caps: []string{"the-cap"}, Deadline: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		ReplyTo: "the-message", Priority: "the-priority", Replaces: federation.EventID{9, 9, 9},
		Evidence: &federation.Evidence{URL: "https://gw.example/the-evidence"},
	}
	return translate.Step{Entry: federation.Entry{Event: ev, Version: 1, State: federation.Offered, Filed: ev.Deadline.Add(-time.Hour)}, View: federation.View{
		ID: id, Home: "the-home.example", Kind: ev.Kind, State: federation.Offered, Version: 1, Offerer: ev.From, Offeree: ev.To, Title: ev.Title, Caps: ev.Caps,
		Deadline: ev.Deadline, Priority: ev.Priority, Replaces: ev.Replaces, Venue: ev.Venue, Dialect: ev.Dialect,
	}}
}

package voicefile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/translatetest"
	"github.com/baton-gateway/baton/translate/voicefile"
)

func TestFidelityTableCoversEachField(t *testing.T) {
	t.Parallel()
	translatetest.NamesEachField(t, fidelity())
}

// members returns the members of the file of an offer, and of its x_fed with the prefix "x_fed.".
func members(t *testing.T, s translate.Step) map[string]string {
	t.Helper()
	text, _, err := voicefile.Encode(voicefile.Offer{Step: s, From: "bob", To: "alice", Now: s.Event.Deadline.Add(-time.Hour)}, secret)
	if err != nil {
		t.Fatal(err)
	}
	var file, carry map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file["x_fed"], &carry); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, value := range file {
		all[name] = string(value)
	}
	for name, value := range carry {
		all["x_fed."+name] = string(value)
	}
	return all
}

// Each field of an offer is in the member that the table names.
func TestFidelityOfAnOfferInItsFile(t *testing.T) {
	t.Parallel()
	inline := members(t, translatetest.FullOffer(`{"the":"context","transcript":[{"role":"user","text":"the line"}]}`))
	referred := members(t, translatetest.FullOffer("https://gw.example/the-context"))
	find := map[string]struct{ member, value string }{
		"id":           {"x_fed.id", translatetest.FullOffer("").Event.ID.String()},
		"from":         {"x_fed.from", "did:plc:the-from"},
		"to":           {"x_fed.to", "did:plc:the-to"},
		"title":        {"reason", "the title"},
		"deadline":     {"expires_at", "2030-01-02T03:04:05Z"},
		"context":      {"transcript", "the line"},
		"context_hash": {"x_fed.context_h", "the-hash"},
		"caps":         {"x_fed.caps", "the-cap"},
		"priority":     {"x_fed.priority", "the-priority"},
		"replaces":     {"x_fed.replaces", translatetest.FullOffer("").Event.Replaces.String()},
		"evidence":     {"x_fed.evidence", "the-evidence"},
	}
	moves := []string{"verb", "note"} // by the folder and the sidecar, which bridge/files writes
	for _, field := range translatetest.Placed(fidelity(), translatetest.Out, translatetest.Kept, translatetest.Moved, translatetest.Carried) {
		want, looked := find[field]
		switch {
		case moves[0] == field, moves[1] == field:
		case !looked:
			t.Errorf("%s is in the table, and the test does not look for it", field)
		case !strings.Contains(inline[want.member]+referred[want.member], want.value):
			t.Errorf("%s is not in %s: %s", field, want.member, inline[want.member])
		}
	}
	if inline["the"] != `"context"` || !strings.Contains(referred["x_fed.context"], "the-context") {
		t.Errorf("the context is %s, the reference is %s", inline["the"], referred["x_fed.context"])
	}
	for _, lost := range []string{"#the-channel", "the-message"} {
		for name, value := range inline {
			if strings.Contains(value, lost) {
				t.Errorf("the table calls %s lost, and %s has it", lost, name)
			}
		}
	}
}

// Each member of a file is where the table says: in the handoff, or only in the bytes of the
// evidence.
func TestFidelityOfAFileInItsHandoff(t *testing.T) {
	t.Parallel()
	text, _, err := voicefile.Encode(voicefile.Offer{
		Step: translatetest.FullOffer(`{"pending_actions":["the action"],"transcript":[{"role":"user","text":"the line"}]}`), From: "bob", To: "alice",
		Now: translatetest.FullOffer("").Event.Deadline.Add(-time.Hour),
	}, secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := voicefile.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	file, err := sealed.Trusted([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{
		"from_agent": file.From == "bob", "to_agent": file.To == "alice", "reason": file.Reason == "the title",
		"expires_at": file.Expires.Equal(translatetest.FullOffer("").Event.Deadline), "transcript": strings.Contains(file.Context, "the line"),
		"any other member": strings.Contains(file.Context, "the action"),
	}
	for _, field := range translatetest.Placed(fidelity(), translatetest.In, translatetest.Kept, translatetest.Moved) {
		if !there[field] {
			t.Errorf("%s is not in the handoff: %+v", field, file)
		}
	}
	for _, field := range translatetest.Placed(fidelity(), translatetest.In, translatetest.Evident) {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("the test has no file with %s", field)
		}
		if strings.Contains(file.Context, `"`+field+`"`) {
			t.Errorf("%s is in the context, and the table does not say so", field)
		}
	}
	table := translatetest.Placed(fidelity(), translatetest.In, translatetest.Kept, translatetest.Moved, translatetest.Evident)
	var said map[string]json.RawMessage
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	if len(said) != len(table) { // "any other member" stands for pending_actions
		t.Errorf("the file has %d members, the table %d rows", len(said), len(table))
	}
}

package taskfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/taskfile"
	"github.com/baton-gateway/baton/translate/translatetest"
)

func TestFidelityTableCoversEachField(t *testing.T) {
	t.Parallel()
	translatetest.NamesEachField(t, fidelity())
}

// encode returns the record of an offer as it is read back.
func encode(t *testing.T, context string) taskfile.Record {
	t.Helper()
	r, err := taskfile.Encode("gw.test", "research", "the-scanner", "the-reviewer", translatetest.FullOffer(context))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(r.Bytes()))
}

// Each field of an offer, and of the step after it, is in the member that the table names.
func TestFidelityOfAStepInItsRecord(t *testing.T) {
	t.Parallel()
	r, referred := encode(t, `{"the":"context"}`), encode(t, "https://gw.example/the-context")
	fed := r.Fed()
	step := translatetest.FullOffer(`{"the":"result"}`)
	step.Event.Verb, step.Event.Note, step.View.State = federation.Complete, "the note", federation.Completed
	later := taskfile.FedOf("gw.test", step)
	result, err := json.Marshal(later.Result)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{
		"id": fed.ID == step.Event.ID.String() && r.ID == taskfile.TaskID("research", step.Event.ID), "from": fed.From == "did:plc:the-from" && r.From == "the-scanner",
		"to": fed.To == "did:plc:the-to" && r.To == "the-reviewer", "title": r.Description == "the title",
		"context":      r.Context() == `{"the":"context"}` && referred.Fed().Context == "https://gw.example/the-context",
		"context_hash": referred.Fed().Hash == "the-hash", "deadline": fed.Deadline == step.Event.Deadline.Unix(), "caps": len(fed.Caps) == 1 && fed.Caps[0] == "the-cap",
		"priority": fed.Priority == "the-priority", "replaces": fed.Replaces == step.Event.Replaces.String(), "evidence": fed.Evidence == "https://gw.example/the-evidence",
		"verb": later.Verb == "complete" && taskfile.StatusOf(step.View.State, taskfile.Accepted) == taskfile.Completed, "note": later.Note == "the note",
		"context of a later step": string(result) == `{"the":"result"}`,
	}
	for _, field := range translatetest.Placed(fidelity(), translatetest.Out, translatetest.Kept, translatetest.Moved, translatetest.Carried) {
		if !there[field] {
			t.Errorf("%s is not in the record: %s", field, r.Bytes())
		}
	}
	for _, lost := range []string{"#the-channel", "the-message"} {
		if strings.Contains(string(r.Bytes()), lost) {
			t.Errorf("the table calls %s lost, and the record has it", lost)
		}
	}
}

// Each member of a record is where the table says: in the handoff, or only in the bytes of the
// evidence.
func TestFidelityOfARecordInItsHandoff(t *testing.T) {
	t.Parallel()
	r := read(t, strings.Replace(record, "null", `"reviewer"`, 1))
	verbs, legal := taskfile.Verbs(federation.Offered, taskfile.Accepted)
	there := map[string]bool{
		"from_agent": r.From == "scanner", "to_agent": r.To == "reviewer", "status": legal && len(verbs) == 1, "description": r.Description == "Review <it> & å",
		"context": r.Context() == `{"line":12345678901234567890,"deep":{"z":1,"a":[]}}`,
	}
	for _, field := range translatetest.Placed(fidelity(), translatetest.In, translatetest.Kept, translatetest.Moved) {
		if !there[field] {
			t.Errorf("%s is not in the handoff: %+v", field, r)
		}
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal([]byte(record), &said); err != nil {
		t.Fatal(err)
	}
	table := translatetest.Placed(fidelity(), translatetest.In, translatetest.Kept, translatetest.Moved, translatetest.Evident)
	if len(said) != len(table) { // "any other member" stands for x_first
		t.Errorf("the record has %d members, the table %d rows", len(said), len(table))
	}
}

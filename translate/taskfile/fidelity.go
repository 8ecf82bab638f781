package taskfile

import "baton/translate"

// Fidelity returns the fidelity table: what becomes of each member of a record, and of each field
// of a step.
func Fidelity() []translate.Fidelity {
	const (
		in, out                                 = translate.In, translate.Out
		kept, moved, carried, evident, notTaken = translate.Kept, translate.Moved, translate.Carried, translate.Evident, translate.NotTaken
	)
	return []translate.Fidelity{
		{in, "from_agent", moved, "from"},
		{in, "to_agent", moved, "to"},
		{in, "status", moved, "verb"},
		{in, "description", moved, "title; the evidence has all of a long one"},
		{in, "context", kept, "context"},
		{in, "task_id", evident, ""},
		{in, "created_at", evident, ""},
		{in, "updated_at", evident, ""},
		{in, "any other member", evident, "it stays in the record too"},
		{out, "id", carried, "_fed.id; task_id is made of it"},
		{out, "from", carried, "_fed.from; from_agent has the name"},
		{out, "to", carried, "_fed.to; to_agent has the name"},
		{out, "title", moved, "description"},
		{out, "context", kept, "context; _fed.context for one that is no object"},
		{out, "context_hash", carried, "_fed.context_h, with a context by reference"},
		{out, "deadline", carried, "_fed.deadline"},
		{out, "caps", carried, "_fed.caps"},
		{out, "priority", carried, "_fed.priority"},
		{out, "replaces", carried, "_fed.replaces"},
		{out, "evidence", carried, "_fed.evidence"},
		{out, "verb", moved, "status, and _fed.verb"},
		{out, "note", carried, "_fed.note"},
		{out, "context of a later step", carried, "_fed.result"},
		{out, "kind", notTaken, "a record is a task"},
		{out, "venue", notTaken, "a record is in a directory and no channel"},
		{out, "dialect", notTaken, "the format has one"},
		{out, "reply_to", notTaken, "a record answers no message"},
		{out, "bid_deadline", notTaken, "a record takes no bids"},
		{out, "accepts", notTaken, "a record takes no bids"},
		{out, "subject", notTaken, "receipts are not carried"},
		{out, "signature", notTaken, "the format has no signatures"},
		{out, "provenance", notTaken, "the format has no signatures"},
	}
}

package taskfile_test

import "github.com/baton-gateway/baton/translate/translatetest"

// fidelity returns the fidelity table: the place of each member of a record in a step, and of each
// field of a step in a record.
func fidelity() []translatetest.Fidelity {
	const (
		in, out                                 = translatetest.In, translatetest.Out
		kept, moved, carried, evident, notTaken = translatetest.Kept, translatetest.Moved, translatetest.Carried, translatetest.Evident, translatetest.NotTaken
	)
	row := translatetest.Row
	return []translatetest.Fidelity{
		row(in, "from_agent", moved, "from"),
		row(in, "to_agent", moved, "to"),
		row(in, "status", moved, "verb"),
		row(in, "description", moved, "title; the context has all of a long one"),
		row(in, "context", kept, "context; its caps and deadline are those of the offer too"),
		row(in, "task_id", evident, ""),
		row(in, "created_at", evident, ""),
		row(in, "updated_at", evident, ""),
		row(in, "any other member", evident, "it stays in the record too"),
		row(out, "id", carried, "_fed.id; task_id is made of it"),
		row(out, "from", carried, "_fed.from; from_agent has the name"),
		row(out, "to", carried, "_fed.to; to_agent has the name"),
		row(out, "title", moved, "description"),
		row(out, "context", kept, "context; _fed.context for one that is no object"),
		row(out, "context_hash", carried, "_fed.context_h, with a context by reference"),
		row(out, "deadline", carried, "_fed.deadline"),
		row(out, "caps", carried, "_fed.caps"),
		row(out, "priority", carried, "_fed.priority"),
		row(out, "replaces", carried, "_fed.replaces"),
		row(out, "evidence", carried, "_fed.evidence"),
		row(out, "verb", moved, "status, and _fed.verb"),
		row(out, "note", carried, "_fed.note"),
		row(out, "context of a later step", carried, "_fed.result"),
		row(out, "kind", notTaken, "a record is a task"),
		row(out, "venue", notTaken, "a record is in a directory and no channel"),
		row(out, "dialect", notTaken, "the format has one"),
		row(out, "reply_to", notTaken, "a record answers no message"),
		row(out, "bid_deadline", notTaken, "a record takes no bids"),
		row(out, "accepts", notTaken, "a record takes no bids"),
		row(out, "subject", notTaken, "receipts are not carried"),
		row(out, "signature", notTaken, "the format has no signatures"),
		row(out, "provenance", notTaken, "the format has no signatures"),
		row(out, "erased", notTaken, "a step is not sent once its content was erased"),
	}
}

package voicefile_test

import "github.com/baton-gateway/baton/translate/translatetest"

// fidelity returns the fidelity table: the fate of each member of a handoff file, and of each
// field of a step.
func fidelity() []translatetest.Fidelity {
	const (
		in, out                                 = translatetest.In, translatetest.Out
		kept, moved, carried, evident, notTaken = translatetest.Kept, translatetest.Moved, translatetest.Carried, translatetest.Evident, translatetest.NotTaken
	)
	row := translatetest.Row
	return []translatetest.Fidelity{
		row(in, "from_agent", moved, "from"),
		row(in, "to_agent", moved, "to"),
		row(in, "reason", moved, "title; the context has all of a long one"),
		row(in, "expires_at", moved, "deadline"),
		row(in, "transcript", moved, "context.transcript"),
		row(in, "any other member", moved, "context"),
		row(in, "protocol_version", evident, ""),
		row(in, "handoff_id", evident, ""),
		row(in, "caller_hash", evident, ""),
		row(in, "initiated_at", evident, ""),
		row(in, "hmac", evident, ""),
		row(in, "x_fed", evident, "the word of another gateway"),
		row(out, "id", carried, "x_fed.id, and in handoff_id"),
		row(out, "from", carried, "x_fed.from; from_agent has the name"),
		row(out, "to", carried, "x_fed.to; to_agent has the name"),
		row(out, "title", moved, "reason"),
		row(out, "deadline", carried, "x_fed.deadline, expires_at"),
		row(out, "context", moved, "transcript and members of the file; x_fed.context for any other one"),
		row(out, "context_hash", carried, "x_fed.context_h, with a context by reference"),
		row(out, "caps", carried, "x_fed.caps"),
		row(out, "priority", carried, "x_fed.priority"),
		row(out, "replaces", carried, "x_fed.replaces"),
		row(out, "evidence", carried, "x_fed.evidence"),
		row(out, "verb", moved, "the folder of the file"),
		row(out, "note", moved, "the sidecar of a rejected file"),
		row(out, "kind", notTaken, "a file is a handoff"),
		row(out, "venue", notTaken, "a file has two parties and no channel"),
		row(out, "dialect", notTaken, "the format has one"),
		row(out, "reply_to", notTaken, "a file answers no message"),
		row(out, "bid_deadline", notTaken, "each file has a recipient"),
		row(out, "accepts", notTaken, "each file has a recipient"),
		row(out, "subject", notTaken, "receipts are not carried"),
		row(out, "signature", notTaken, "the HMAC of the pair authenticates a file"),
		row(out, "provenance", notTaken, "the HMAC of the pair authenticates a file"),
		row(out, "erased", notTaken, "a step is not sent once its content was erased"),
		row(out, "context of a later step", notTaken, "the HMAC covers each byte of the offer; the result is read over REST"),
		row(out, "progress", notTaken, "the HMAC covers each byte of the offer"),
	}
}

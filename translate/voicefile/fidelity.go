package voicefile

import "baton/translate"

// Fidelity returns the fidelity table: what becomes of each member of a handoff file, and of each
// field of a step.
func Fidelity() []translate.Fidelity {
	const (
		in, out                                 = translate.In, translate.Out
		kept, moved, carried, evident, notTaken = translate.Kept, translate.Moved, translate.Carried, translate.Evident, translate.NotTaken
	)
	return []translate.Fidelity{
		{in, "from_agent", moved, "from"},
		{in, "to_agent", moved, "to"},
		{in, "reason", moved, "title; the evidence has all of a long one"},
		{in, "expires_at", moved, "deadline"},
		{in, "transcript", moved, "context.transcript"},
		{in, "any other member", moved, "context"},
		{in, "protocol_version", evident, ""},
		{in, "handoff_id", evident, ""},
		{in, "caller_hash", evident, ""},
		{in, "initiated_at", evident, ""},
		{in, "hmac", evident, ""},
		{in, "x_fed", evident, "the word of another gateway"},
		{out, "id", carried, "x_fed.id, and in handoff_id"},
		{out, "from", carried, "x_fed.from; from_agent has the name"},
		{out, "to", carried, "x_fed.to; to_agent has the name"},
		{out, "title", moved, "reason"},
		{out, "deadline", carried, "x_fed.deadline, expires_at"},
		{out, "context", moved, "transcript and members of the file; x_fed.context for any other one"},
		{out, "context_hash", carried, "x_fed.context_h, with a context by reference"},
		{out, "caps", carried, "x_fed.caps"},
		{out, "priority", carried, "x_fed.priority"},
		{out, "replaces", carried, "x_fed.replaces"},
		{out, "evidence", carried, "x_fed.evidence"},
		{out, "verb", moved, "the folder of the file"},
		{out, "note", moved, "the sidecar of a rejected file"},
		{out, "kind", notTaken, "a file is a handoff"},
		{out, "venue", notTaken, "a file has two parties and no channel"},
		{out, "dialect", notTaken, "the format has one"},
		{out, "reply_to", notTaken, "a file answers no message"},
		{out, "bid_deadline", notTaken, "each file has a recipient"},
		{out, "accepts", notTaken, "each file has a recipient"},
		{out, "subject", notTaken, "receipts are not carried"},
		{out, "signature", notTaken, "the HMAC of the pair authenticates a file"},
		{out, "provenance", notTaken, "the HMAC of the pair authenticates a file"},
		{out, "context of a later step", notTaken, "the HMAC covers each byte of the offer; the result is read over REST"},
		{out, "progress", notTaken, "the HMAC covers each byte of the offer"},
	}
}

package macpmode

import "baton/translate"

// Fidelity returns the fidelity table: what becomes of each member in each direction.
func Fidelity() []translate.Fidelity {
	const (
		in, out                                 = translate.In, translate.Out
		kept, moved, carried, evident, notTaken = translate.Kept, translate.Moved, translate.Carried, translate.Evident, translate.NotTaken
	)
	return []translate.Fidelity{
		{in, "intent", moved, "title"},
		{in, "scope", evident, "title where the session has no intent"},
		{in, "reason", evident, ""},
		{in, "roots", evident, ""},
		{in, "context_id", evident, ""},
		{in, "expiry", moved, "deadline"},
		{in, "context", kept, "context; by reference unless it is JSON"},
		{in, "later contexts", notTaken, "they stay in the session"},
		{in, "target_participant", moved, "to"},
		{in, "extension caps", carried, "caps"},
		{in, "extension priority", carried, "priority"},
		{in, "extension replaces", carried, "replaces"},
		{in, "answer reason", moved, "note"},
		{in, "step note", moved, "note"},
		{in, "step result", moved, "context"},
		{in, "step retryable", moved, "context.retryable"},
		{out, "id", moved, "handoff_id"},
		{out, "title", moved, "intent, scope"},
		{out, "context", kept, "context"},
		{out, "context_hash", moved, "context_id"},
		{out, "deadline", moved, "ttl_ms, at most a day; the extension has all of it"},
		{out, "channel", moved, "roots"},
		{out, "from", moved, "initiator"},
		{out, "to", moved, "target_participant"},
		{out, "caps", carried, "caps"},
		{out, "priority", carried, "priority"},
		{out, "replaces", carried, "replaces"},
		{out, "answer note", moved, "reason"},
		{out, "step verb", carried, "verb"},
		{out, "step note", carried, "note"},
		{out, "step context", carried, "result, result_ref"},
		{out, "step signature", carried, "sig"},
		{out, "reply_to", notTaken, "the order of a session says it"},
	}
}

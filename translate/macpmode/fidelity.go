package macpmode

import "baton/translate"

// Fidelity returns the fidelity table: what becomes of each member in each direction.
func Fidelity() []translate.Fidelity {
	const (
		in, out                                 = translate.In, translate.Out
		kept, moved, carried, evident, notTaken = translate.Kept, translate.Moved, translate.Carried, translate.Evident, translate.NotTaken
	)
	row := translate.Row
	return []translate.Fidelity{
		row(in, "intent", moved, "title"),
		row(in, "scope", evident, "title where the session has no intent"),
		row(in, "reason", evident, ""),
		row(in, "roots", evident, ""),
		row(in, "context_id", evident, ""),
		row(in, "expiry", moved, "deadline"),
		row(in, "context", kept, "context; by reference unless it is JSON"),
		row(in, "later contexts", notTaken, "they stay in the session"),
		row(in, "target_participant", moved, "to"),
		row(in, "extension caps", carried, "caps"),
		row(in, "extension priority", carried, "priority"),
		row(in, "extension replaces", carried, "replaces"),
		row(in, "answer reason", moved, "note"),
		row(in, "step note", moved, "note"),
		row(in, "step result", moved, "context"),
		row(in, "step retryable", moved, "context.retryable"),
		row(out, "id", moved, "handoff_id"),
		row(out, "title", moved, "intent, scope"),
		row(out, "context", kept, "context"),
		row(out, "context_hash", moved, "context_id"),
		row(out, "deadline", moved, "ttl_ms, at most a day; the extension has all of it"),
		row(out, "channel", moved, "roots"),
		row(out, "from", moved, "initiator"),
		row(out, "to", moved, "target_participant"),
		row(out, "caps", carried, "caps"),
		row(out, "priority", carried, "priority"),
		row(out, "replaces", carried, "replaces"),
		row(out, "answer note", moved, "reason"),
		row(out, "step verb", carried, "verb"),
		row(out, "step note", carried, "note"),
		row(out, "step context", carried, "result, result_ref"),
		row(out, "step signature", carried, "sig"),
		row(out, "reply_to", notTaken, "the order of a session says it"),
	}
}

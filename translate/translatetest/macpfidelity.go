package translatetest

// MACPFidelity returns the fidelity table of the handoff mode of MACP: the place of each member in
// each direction.
func MACPFidelity() []Fidelity {
	const (
		in, out                                 = In, Out
		kept, moved, carried, evident, notTaken = Kept, Moved, Carried, Evident, NotTaken
	)
	row := Row
	return []Fidelity{
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

// MACPTaskFidelity returns the fidelity table of the task mode: the place of each member of a report
// in each direction. The handoff itself has the members of its request.
func MACPTaskFidelity() []Fidelity {
	const in, out = In, Out
	row := Row
	return []Fidelity{
		row(in, "update message", Moved, "note"),
		row(in, "update status", Moved, "context.status; note where there is no message"),
		row(in, "update progress", Moved, "context.progress"),
		row(in, "update partial_output", Moved, "context where the update has nothing else for it; else context.result, or context.result_b64 where it is no JSON"),
		row(in, "complete summary", Moved, "note"),
		row(in, "complete output", Moved, "context; by reference unless it is JSON"),
		row(in, "fail reason", Moved, "note"),
		row(in, "fail error_code", Moved, "context.error_code"),
		row(in, "fail retryable", Moved, "context.retryable"),
		row(in, "reject reason", Moved, "note of a fail"),
		row(in, "assignee", Evident, "the sender says it"),
		row(out, "progress note", Moved, "message"),
		row(out, "progress context", Moved, "partial_output; status and progress as members too"),
		row(out, "complete note", Moved, "summary"),
		row(out, "complete context", Moved, "output"),
		row(out, "fail note", Moved, "reason"),
		row(out, "fail context", Moved, "error_code, retryable; its other members are lost, which the log says"),
		row(out, "signature", NotTaken, "no message has a member for it; the gateway has it at the href of the extension"),
	}
}

package macpmode

// Way is the direction of a translation.
type Way string

// The directions.
const (
	In  Way = "in"  // from a session to a handoff
	Out Way = "out" // from a handoff to a session
)

// Place says where a member is on the other side.
type Place string

// The places.
const (
	Kept     Place = "kept"     // in a member of its own
	Moved    Place = "moved"    // in another member
	Carried  Place = "carried"  // in the extension, or in the data of a signal
	Evident  Place = "evidence" // only in the evidence of the step
	NotTaken Place = "lost"
)

// Fate is one row of the fidelity table.
type Fate struct {
	Way   Way
	Field string
	Place Place
	Where string
}

// Fidelity returns the fidelity table: what becomes of each member in each direction.
func Fidelity() []Fate {
	return []Fate{
		{In, "intent", Moved, "title"},
		{In, "scope", Evident, "title where the session has no intent"},
		{In, "reason", Evident, ""},
		{In, "roots", Evident, ""},
		{In, "context_id", Evident, ""},
		{In, "expiry", Moved, "deadline"},
		{In, "context", Kept, "context; by reference unless it is JSON"},
		{In, "later contexts", NotTaken, "they stay in the session"},
		{In, "target_participant", Moved, "to"},
		{In, "extension caps", Carried, "caps"},
		{In, "extension priority", Carried, "priority"},
		{In, "extension replaces", Carried, "replaces"},
		{In, "answer reason", Moved, "note"},
		{In, "step note", Moved, "note"},
		{In, "step result", Moved, "context"},
		{In, "step retryable", Moved, "context.retryable"},
		{Out, "id", Moved, "handoff_id"},
		{Out, "title", Moved, "intent, scope"},
		{Out, "context", Kept, "context"},
		{Out, "context_hash", Moved, "context_id"},
		{Out, "deadline", Moved, "ttl_ms, at most a day; the extension has all of it"},
		{Out, "channel", Moved, "roots"},
		{Out, "from", Moved, "initiator"},
		{Out, "to", Moved, "target_participant"},
		{Out, "caps", Carried, "caps"},
		{Out, "priority", Carried, "priority"},
		{Out, "replaces", Carried, "replaces"},
		{Out, "answer note", Moved, "reason"},
		{Out, "step verb", Carried, "verb"},
		{Out, "step note", Carried, "note"},
		{Out, "step context", Carried, "result, result_ref"},
		{Out, "step signature", Carried, "sig"},
		{Out, "reply_to", NotTaken, "the order of a session says it"},
	}
}

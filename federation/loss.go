package federation

import "slices"

// Loss names a member of a step that a wire could not carry, and its fate. The operator
// and the sender learn of it; nothing is dropped silently.
type Loss struct {
	Field string // as in the JSON of [Event], such as "note"
	Fate  Fate
	Why   string
}

// Loses reports whether a field is among some losses.
func Loses(losses []Loss, field string) bool {
	return slices.ContainsFunc(losses, func(l Loss) bool { return l.Field == field })
}

// Fate says how much of a field travels.
type Fate string

// The fates.
const (
	Cut  Fate = "cut"  // part of it travels
	Lost Fate = "lost" // none of it travels
)

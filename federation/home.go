package federation

import "context"

// Judgement is what a home concluded about one submitted step. It is returned
// with a refusal too, for the log and the counters.
type Judgement struct {
	Verdict   Verdict  // on the signature
	Entry     Entry    // as filed; zero unless the step was
	View      View     // of the handoff after it; as it stands where the step was refused
	Feeds     []string // links that are owed the step
	Duplicate bool     // the step had been filed before, and Entry is from then
}

// Routes tells which links are owed a step, besides the inboxes of its parties.
type Routes interface {
	// Owed returns the names of links, and which of them show something of the step
	// once at most. The view is that after the step.
	Owed(ctx context.Context, ev Event, after View) (feeds, once []string, err error)
}

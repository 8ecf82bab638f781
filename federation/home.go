package federation

// Judgement is what a home concluded about one submitted step. It is returned
// with a refusal too, for the log and the counters.
type Judgement struct {
	Verdict   Verdict // on the signature
	Entry     Entry   // as filed; of a step that was not the event alone, with its id
	View      View    // of the handoff after it; as it stands where the step was refused
	Fanout    Fanout  // where the step was delivered to
	Duplicate bool    // the step had been filed before, and Entry is from then
	Conflicts int     // how often another step of the handoff was filed first, and this one judged again
	// Newcomer is the DID of the step where the record never met it before; else "".
	Newcomer DID
	// Awaits says that the step is on disk but in no log yet: the home of the handoff is
	// another one and has not ruled. Entry has the step, and View is as without it.
	Awaits bool
}

// Fanout says where a step goes, besides the inboxes of its parties.
type Fanout struct {
	Links []string // names of links that are to deliver it
	// Once names the Links that show a step at most once. Their first attempt counts when the
	// step is filed, so that it needs no write of its own.
	Once []string
	// Effects are written with the step to the tables of the networks that they are of.
	Effects []Effect
	// Topics are woken once the step is filed, because of what the Effects changed.
	Topics []string
	// Kept lists the keys that the gateway keeps for the parties. Other networks may show their
	// DIDs from now on, so the record stores the owners.
	Kept []KeptKey
}

// KeptKey is a key that the gateway keeps for a DID.
type KeptKey struct {
	ID    string // see [KeyID]
	Owner DID
}

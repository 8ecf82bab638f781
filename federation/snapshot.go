package federation

// SnapshotQuery says what the record is asked before a home judges a step.
type SnapshotQuery struct {
	Step    Event
	OpenOf  DID     // count the handoffs that this DID offered and that are not over; "" for no count
	Inboxes bool    // read the use of inboxes: of Step.To for an offer, else of the parties of its handoff
	Version Version // at which another home ruled that the step belongs; 0 without a ruling
}

// Snapshot is what the record has about one step and its handoff, all of the same moment.
type Snapshot struct {
	View View // zero for a handoff without a log
	// Filed is the same step (see [Event.Digest]) where it was filed before, else nil.
	Filed *Entry
	// Used says why the step can never be filed, else nil: its signer used the id for other
	// bytes ([EventIDInUse]), or the step was filed and pruned ([TerminalHandoff]).
	Used      *RefusalError
	Named     *Entry    // the step of the same handoff that Step.Accepts names, nil for none
	Replaced  View      // of the handoff that Step.Replaces names, zero where it has no log
	Reference HandoffID // of the step that Step answers or confirms, zero where it is not known
	Pending   []Pending // the steps of the handoff that wait for the ruling of its home, oldest first
	Open      int       // see [SnapshotQuery].OpenOf
	// Inboxes is how much of each inbox is used, and by the signer of the step. A DID with an
	// empty inbox is not in it.
	Inboxes map[DID]InboxUse
	Head    [32]byte // the [Link] after the newest step of View, zero without a log
	Chain   [32]byte // the [Link] after the step at the version of the query, zero where there is none
	// Forked says that there is proof that the handoff has two histories. It is read for a query
	// with a version.
	Forked bool
}

// Judged reports whether the step was filed before, or can never be filed.
func (s Snapshot) Judged() bool { return s.Filed != nil || s.Used != nil }

// Answers returns what a step refers to: the event that it confirms, or the event ID or
// message id that it answers; "" for neither.
func (e Event) Answers() string {
	if e.Verb == Confirm && !e.Subject.IsZero() {
		return e.Subject.String()
	}
	return e.ReplyTo
}

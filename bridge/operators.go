package bridge

import "baton/federation"

// LinkStatus is a link with its status.
type LinkStatus struct {
	Link   Link
	Status Status
}

// Sender counts what came from one sender.
type Sender struct {
	Name    string
	Steps   int   // all that were judged
	Refused int   // of these
	Limited int   // refused because of a rate
	Blocked int   // steps, logins and connections that an operator's block refused
	Bytes   int64 // of the documents and evidence of all steps
}

// Purged counts what the purge of a source ended.
type Purged struct {
	federation.Purged

	Handoffs int // that the source had offered here
}

package freeq

import (
	"context"

	"baton/federation"
)

// Admits returns a [*federation.RefusalError] for a step that waits for the ruling of the
// server and that the server can only ignore: it takes an answer to a directed offer from the
// very DID of the offer. A step that this gateway writes again is signed by another one. Its
// other errors come from the record.
func (l *Link) Admits(ctx context.Context, h federation.Pending) error {
	_, err := l.pending(ctx, h)
	return err
}

// admit is [Link.Admits] for a step as it is written there.
func (l *Link) admit(written federation.Event, v federation.View) error {
	if v.Offeree == "" || written.From == v.Addressee() || written.Verb != federation.Accept && written.Verb != federation.Decline {
		return nil
	}
	return federation.Refuse(written, federation.NeedSignature, "the server takes it only as signed by "+string(v.Addressee())+
		" itself, in act tags for "+v.Venue)
}

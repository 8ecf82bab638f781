package signing

import (
	"context"
	"errors"
	"fmt"

	"baton/federation"
)

// Reader returns the step of a canonical document. Its error is a [*federation.RefusalError] for a
// document that is no step.
type Reader func(document string) (federation.Event, error)

// Open verifies a step as [Verify] does, and reads the members of a valid one from its document.
// What a codec filled in beside the document is discarded. A step that its codec could not name
// keeps the id of its home, and each step keeps its provenance, evidence and arrival, which no
// signature covers.
func Open(ctx context.Context, keys federation.KeySource, read Reader, ev federation.Event) (federation.Event, federation.Verdict, error) {
	ev, verdict, err := Verify(ctx, keys, ev)
	if err != nil {
		return ev, verdict, err
	}
	ev, err = Signed(read, ev)
	return ev, verdict, err
}

// Signed returns a step whose signature is known to be valid with the members of its document.
func Signed(read Reader, ev federation.Event) (federation.Event, error) {
	signed, err := read(ev.Signature.Document)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return ev, federation.Refuse(ev, refused.Code, refused.Detail)
	}
	if err != nil {
		return ev, federation.Refuse(ev, federation.InvalidTag, fmt.Sprintf("the signed document is no step: %v", err))
	}
	if !signed.Stamped {
		signed.ID = ev.ID
	}
	signed.Provenance, signed.Signature, signed.Evidence, signed.Erased, signed.Arrival = ev.Provenance, ev.Signature, ev.Evidence, ev.Erased, ev.Arrival
	return signed, nil
}

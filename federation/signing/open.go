package signing

import (
	"context"
	"errors"
	"fmt"

	"baton/federation"
)

// Reader parses the step in a canonical document. It returns a [*federation.RefusalError] if the
// document is not a step.
type Reader func(document string) (federation.Event, error)

// Open verifies a step as [Verify] does, and reads the members of a valid step from its document.
// It discards members set by a codec but missing in the document. If the document has no ID,
// the step keeps the ID set by its home. Provenance, evidence and arrival are not signed and stay
// as they are.
func Open(ctx context.Context, keys federation.KeySource, read Reader, ev federation.Event) (federation.Event, federation.Verdict, error) {
	ev, verdict, err := Verify(ctx, keys, ev)
	if err != nil {
		return ev, verdict, err
	}
	ev, err = Signed(read, ev)
	return ev, verdict, err
}

// Signed returns a step with a verified signature, with the members of its document.
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

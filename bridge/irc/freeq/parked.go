package freeq

import (
	"context"
	"slices"

	"baton/federation"
)

// maxParked is how many receipts wait for the steps that they confirm. A server may
// send a receipt before the step, by a fraction of a second.
const maxParked = 256

// park keeps a receipt whose step has not come yet. The oldest make room.
func (s *session) park(in *inbound) {
	if len(s.parked) >= maxParked {
		s.parked = slices.Delete(s.parked, 0, 1)
	}
	s.parked = append(s.parked, in)
}

// unpark judges the receipts of a step that has come.
func (s *session) unpark(step federation.EventID) {
	s.parked = slices.DeleteFunc(s.parked, func(in *inbound) bool {
		fits := in.ev.Subject == step
		if fits {
			s.Steps.Add(in)
		}
		return fits
	})
}

// early reports whether a step was refused for nothing but that it came before what
// it stands on.
func early(ctx context.Context, in *inbound, refused *federation.RefusalError) bool {
	return ctx.Err() == nil && in.ev.Verb == federation.Confirm && refused != nil &&
		(refused.Code == federation.WrongReference || refused.Code == federation.UnknownHandoff)
}

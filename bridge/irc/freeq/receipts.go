package freeq

import (
	"context"
	"slices"

	"baton/federation"
)

// maxEarlyReceipts is how many receipts wait for the steps that they confirm. A server may
// send a receipt before the step, by a fraction of a second.
const maxEarlyReceipts = 256

// holdReceipt keeps a receipt whose step has not come yet, in place of the oldest where
// there are too many.
func (s *session) holdReceipt(in *inbound) {
	if len(s.earlyReceipts) >= maxEarlyReceipts {
		s.earlyReceipts = slices.Delete(s.earlyReceipts, 0, 1)
	}
	s.earlyReceipts = append(s.earlyReceipts, in)
}

// judgeReceipts judges the receipts of a step that has come.
func (s *session) judgeReceipts(step federation.EventID) {
	s.earlyReceipts = slices.DeleteFunc(s.earlyReceipts, func(in *inbound) bool {
		fits := in.ev.Subject == step
		if fits {
			s.Steps.Add(in)
		}
		return fits
	})
}

// early reports whether a receipt was refused because it came before its step.
func early(ctx context.Context, in *inbound, refused *federation.RefusalError) bool {
	return ctx.Err() == nil && in.ev.Verb == federation.Confirm && refused != nil &&
		(refused.Code == federation.WrongReference || refused.Code == federation.UnknownHandoff)
}

package freeq

import (
	"context"
	"slices"
	"time"

	"baton/federation"
)

// maxEarlyReceipts is how many receipts wait for the steps that they confirm. A server may
// send a receipt before the step, by a fraction of a second, and a step of a user of another
// server comes over another link.
const maxEarlyReceipts = 256

// maxReceiptWait bounds the wait before a receipt is judged again: the wait doubles from a
// second.
const maxReceiptWait = time.Minute

// holdReceipt keeps a receipt whose step has not come yet, in place of the oldest where
// there are too many.
func (s *session) holdReceipt(in *inbound) {
	if len(s.earlyReceipts) >= maxEarlyReceipts {
		s.earlyReceipts = slices.Delete(s.earlyReceipts, 0, 1)
	}
	in.wait = min(max(time.Second, 2*in.wait), maxReceiptWait)
	in.due = time.Now().Add(in.wait)
	s.earlyReceipts = append(s.earlyReceipts, in)
}

// judgeDueReceipts judges the receipts again whose step may have come over another link.
func (s *session) judgeDueReceipts(now time.Time) {
	s.earlyReceipts = slices.DeleteFunc(s.earlyReceipts, func(in *inbound) bool {
		due := now.After(in.due)
		if due {
			s.Steps.Add(in)
		}
		return due
	})
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

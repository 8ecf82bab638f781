package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// KnowsHomes implements [federationtest.Homes].
func (s *Record) KnowsHomes(ctx context.Context, self federation.HomeID) (knows bool, err error) {
	err = s.reads.row(ctx, `SELECT EXISTS (SELECT 1 FROM mailbox_location WHERE home < ?1) OR EXISTS (SELECT 1 FROM mailbox_location WHERE home > ?1)
		OR EXISTS (SELECT 1 FROM binding WHERE network = 'home')`, []any{string(self)}, &knows)
	if err != nil {
		return false, fmt.Errorf("look for other homes: %w", err)
	}
	return knows, nil
}

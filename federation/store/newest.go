package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// NewestFiled returns the filing time of the newest step on record; zero for an empty record.
func (s *Record) NewestFiled(ctx context.Context) (time.Time, error) {
	var filed int64
	err := s.db.Reads().Row(ctx, `SELECT filed FROM event ORDER BY seq DESC LIMIT 1`, nil, &filed)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read the newest step: %w", err)
	}
	return engine.Moment(filed), nil
}

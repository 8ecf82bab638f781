package store

import (
	"maps"
	"slices"
)

// Queries returns all that was asked of a record so far.
func (s *Record) Queries() []string {
	return slices.Concat(slices.Collect(maps.Keys(s.reads.kept)), slices.Collect(maps.Keys(s.writes.pen.kept)))
}

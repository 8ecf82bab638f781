package participant

import (
	"maps"
	"slices"
)

// Operations returns the names of the operations of an account, sorted.
func Operations() []string { return slices.Sorted(maps.Keys(calls())) }

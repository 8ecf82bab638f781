//go:build long

package delivery_test

import "testing"

func TestEveryLongSequenceOfAttempts(t *testing.T) { exploreAll(t, 5) }

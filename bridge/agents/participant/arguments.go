package participant

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// DidYouMean suggests the most similar known word, or else all known words.
func DidYouMean(word string, known []string) string {
	best, least := "", max(maxDistance, utf8.RuneCountInString(word)/2)+1
	known = slices.Sorted(slices.Values(known))
	for _, each := range known {
		if distance := levenshtein.ComputeDistance(strings.ToLower(word), each); distance < least {
			best, least = each, distance
		}
	}
	switch {
	case len(known) == 0:
		return ""
	case best == "":
		return "; want one of " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// float64 represents integers up to this bound exactly.
const maxInteger = 1 << 53

// Integer returns the digits of an integral number. Models often write 20.0 for 20.
func Integer(number float64) (digits []byte, ok bool) {
	if number != math.Trunc(number) || math.Abs(number) >= maxInteger {
		return nil, false
	}
	return strconv.AppendInt(nil, int64(number), 10), true
}

// Timestamp returns a time in UTC and whole milliseconds. Zero stays zero.
func Timestamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

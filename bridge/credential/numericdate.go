package credential

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// lastSecond is the last second of the year 9999 in Unix time. Later times have no RFC 3339 form.
const lastSecond = 253_402_300_799

// NumericDate returns the time in a claim, or the zero time if the claim is absent. It returns an error
// unless the claim is a number of seconds from 1970 to 9999.
//
// spec: RFC 7519 §2
func NumericDate(claim json.RawMessage) (time.Time, error) {
	if len(claim) == 0 {
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseFloat(string(claim), 64)
	if err != nil || strings.Trim(string(claim), "0123456789.eE+-") != "" || seconds < 0 || seconds > lastSecond {
		return time.Time{}, errors.New("want a number of seconds since 1970")
	}
	return time.UnixMilli(int64(seconds * 1000)), nil
}

package irc

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"baton/translate"
)

// CheckChannels returns what is wrong with the channels of a link, each of which has at
// most that many bytes on its network.
func CheckChannels(names []string, maxBytes int) error {
	if len(names) == 0 {
		return errors.New(`want at least one, as in ["#ops"]`)
	}
	var seen []string
	for _, name := range names {
		venue, ok := translate.Channel(name)
		switch {
		case !ok || len(name) < 2 || len(name) > maxBytes || strings.ContainsFunc(name, unicode.IsControl):
			return fmt.Errorf("%q is no channel: want \"#\" and up to %d bytes without space or comma", name, maxBytes-1)
		case slices.Contains(seen, venue):
			return fmt.Errorf("%q is there twice", name)
		}
		seen = append(seen, venue)
	}
	return nil
}

// ValidAddress reports whether a string is "host:port" of somebody else.
func ValidAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// ValidListen is [ValidAddress] for an end of ours, whose host may be any.
func ValidListen(s string) bool {
	return ValidAddress(s) || strings.HasPrefix(s, ":") && ValidAddress("localhost"+s)
}

package irc

import (
	"net"
	"strconv"
	"strings"
)

// ValidAddress reports whether a string is "host:port" of another machine.
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

package federation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrTooManyCodes is returned if too many devices are waiting for a login.
var ErrTooManyCodes = errors.New("federation: too many devices wait for a login")

// LoginKind distinguishes login codes.
type LoginKind string

// The kinds of login codes.
const (
	PairingCode LoginKind = "pairing" // from a party, for an agent host that will act for it
	DeviceCode  LoginKind = "device"  // shown by a device, for approval by a party
)

// LoginCode is a short one-time code for logging in an agent host.
type LoginCode struct {
	Digest     [32]byte
	Kind       LoginKind
	DID        DID    // "" for an unapproved device
	Key        string // of the creating or approving session, see [Session]
	Bound      bool   // see [Session]
	Address    string // "" for a pairing code
	Client     string
	ClientName string
	Denied     bool
	Expires    time.Time
}

// LoginCodeLife is the lifetime of a login code.
const LoginCodeLife = 10 * time.Minute

// Limits on stored login codes.
const (
	MaxPairingCodes    = 8    // of one DID; a new one replaces the oldest
	MaxDeviceCodes     = 1024 // of all devices
	MaxDevicesOfOrigin = 16   // pending, from one address
)

// Without characters that look alike.
const loginAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

const loginCodeLength = 8

// NewLoginCode returns two groups of characters, such as "K7QF-2MXD".
func NewLoginCode(entropy io.Reader) (string, error) {
	b := make([]byte, loginCodeLength)
	if _, err := io.ReadFull(entropy, b); err != nil {
		return "", fmt.Errorf("make login code: %w", err)
	}
	for i := range b {
		b[i] = loginAlphabet[int(b[i])%len(loginAlphabet)]
	}
	return string(b[:loginCodeLength/2]) + "-" + string(b[loginCodeLength/2:]), nil
}

// DigestLoginCode returns the digest of a code, ignoring case, spaces and hyphens.
func DigestLoginCode(kind LoginKind, text string) [32]byte {
	text = strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	return sha256.Sum256([]byte(string(kind) + " " + text))
}

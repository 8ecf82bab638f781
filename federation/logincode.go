package federation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrTooManyCodes is returned if a device requests a login while too many devices are waiting.
var ErrTooManyCodes = errors.New("federation: too many devices wait for a login")

// LoginKind is a kind of [LoginCode].
type LoginKind string

// Kinds of login codes.
const (
	PairingCode LoginKind = "pairing" // created by a party for an agent host, which then acts for it
	DeviceCode  LoginKind = "device"  // the user code of a device, which a party approves
)

// LoginCode is a short one-time code for logging in an agent host.
type LoginCode struct {
	Digest     [32]byte
	Kind       LoginKind
	DID        DID    // to log in as; "" for an unapproved device
	Key        string // of the session that created or approved it, as in [Session]
	Bound      bool   // as in that session
	Address    string // of the device; "" for a pairing code
	Client     string
	ClientName string
	Denied     bool
	Expires    time.Time
}

// LoginCodeLife is the lifetime of a login code.
const LoginCodeLife = 10 * time.Minute

// Limits on the number of login codes in the record.
const (
	MaxPairingCodes    = 8    // of one DID; the oldest one ends
	MaxDeviceCodes     = 1024 // of all devices
	MaxDevicesOfOrigin = 16   // pending, of one address
)

// The alphabet has no look-alikes.
const loginAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"

const loginCodeLength = 8

// NewLoginCode returns a code of two groups, such as "K7QF-2MXD".
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

// DigestLoginCode returns the digest of a typed code. It ignores case, spaces and hyphens.
func DigestLoginCode(kind LoginKind, text string) [32]byte {
	text = strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	return sha256.Sum256([]byte(string(kind) + " " + text))
}

package federation

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ProfilePath is the path of the well-known document of a home, its [HomeProfile].
const ProfilePath URLPath = "/.well-known/baton"

// SignatureHeader is the header with the signature of a home over the body that it sends.
const SignatureHeader = "Baton-Signature"

// HomeProtocol is the version of the messages and documents between homes: the "v" of each of
// them, and the only one that is read.
const HomeProtocol = 1

// HomeProfileType is the type of a [HomeProfile]. No signature is good for another type.
const HomeProfileType = "home"

// HomeProfile is what a home publishes about itself, signed with its key.
type HomeProfile struct {
	Type     string     `json:"type"` // HomeProfileType
	V        int        `json:"v"`
	Home     HomeID     `json:"home"`
	DID      DID        `json:"did"`
	URL      string     `json:"url"`      // where it is reached, without a path
	Versions []int      `json:"versions"` // of the messages between homes
	Limits   HomeLimits `json:"limits"`
	Sent     time.Time  `json:"sent"` // by its clock
}

// HomeLimits is what a home takes from another one at once.
type HomeLimits struct {
	Steps     int   `json:"steps"`      // of a batch
	Bytes     int   `json:"bytes"`      // of a batch
	Hops      int   `json:"hops"`       // homes that a step may come through; 0 for any number
	ClockSkew int64 `json:"clock_skew"` // seconds by which clocks may differ
}

// ParseHomeProfile reads a profile strictly: a member that is unknown or repeated is an error.
// The caller verifies the signature.
func ParseHomeProfile(text []byte) (HomeProfile, error) {
	var p HomeProfile
	if err := ExactJSON(text); err != nil {
		return p, err
	}
	if err := DecodeStrictJSON(text, &p); err != nil {
		return p, err
	}
	switch {
	case p.Type != HomeProfileType || p.V != HomeProtocol:
		return p, fmt.Errorf("want type %q of version %d", HomeProfileType, HomeProtocol)
	case !p.Home.Valid() || p.DID != p.Home.DID():
		return p, errors.New("want the name of a home, and its DID")
	}
	return p, nil
}

// Speaks reports whether the home reads the messages of this one.
func (p HomeProfile) Speaks() bool { return slices.Contains(p.Versions, HomeProtocol) }

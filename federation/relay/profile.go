package relay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"baton/federation"
)

// ProfilePath is where a home says who it is and what it speaks, signed as all that it
// says: its well-known document.
const ProfilePath federation.URLPath = "/.well-known/baton"

// Profile is what a home says of itself to whoever asks.
type Profile struct {
	Type     string            `json:"type"` // "home"
	V        int               `json:"v"`
	Home     federation.HomeID `json:"home"`
	DID      federation.DID    `json:"did"`
	URL      string            `json:"url"`      // where it is reached, without a path
	Versions []int             `json:"versions"` // of what homes send each other
	Limits   ProfileLimits     `json:"limits"`
	Sent     time.Time         `json:"sent"` // by its clock
}

// ProfileLimits is what a home takes.
type ProfileLimits struct {
	Steps     int   `json:"steps"`      // of a batch
	Bytes     int   `json:"bytes"`      // of a batch
	Hops      int   `json:"hops"`       // homes that a step may come through; 0 for any number
	ClockSkew int64 `json:"clock_skew"` // seconds by which clocks may differ
}

// ParseProfile reads what a home said of itself. Whether it signed that is for the caller
// to see.
func ParseProfile(text []byte) (Profile, error) {
	var p Profile
	if err := parse(text, &p); err != nil {
		return p, err
	}
	switch {
	case p.Type != typeHome || p.V != Version:
		return p, fmt.Errorf("want type %q of version %d", typeHome, Version)
	case !hostName(p.Home) || p.DID != p.Home.DID():
		return p, errors.New("want the name of a home, and its DID")
	}
	return p, nil
}

// Speaks reports whether the home can be spoken to.
func (p Profile) Speaks() bool { return slices.Contains(p.Versions, Version) }

// Takes returns why the home takes less than this one sends at once; "" where it takes
// all.
func (p Profile) Takes() string {
	if p.Limits.Steps < maxItems || p.Limits.Bytes < maxBatchBytes {
		return fmt.Sprintf("it takes %d steps and %d bytes at once, and is sent up to %d and %d", p.Limits.Steps, p.Limits.Bytes, maxItems, maxBatchBytes)
	}
	return ""
}

// serveProfile answers who this home is.
func (h *PeerHandler) serveProfile(w http.ResponseWriter, r *http.Request) {
	said := Profile{
		Type: typeHome, V: Version, Home: h.Deps.Home, DID: h.Deps.Home.DID(), URL: h.PublicURL, Versions: []int{Version},
		Limits: ProfileLimits{Steps: maxItems, Bytes: maxBatchBytes, Hops: h.Deps.MaxHops(), ClockSkew: int64(h.ClockSkew().Seconds())},
		Sent:   h.Deps.Now().UTC(),
	}
	h.tell(w, r, said)
}

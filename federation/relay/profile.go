package relay

import (
	"net/http"

	"baton/federation"
)

// BatchLimits returns the largest batch that this home sends. Another home must accept it.
func BatchLimits() federation.HomeLimits {
	return federation.HomeLimits{Steps: maxItems, Bytes: maxBatchBytes}
}

// serveProfile answers with the profile of this home.
func (h *PeerHandler) serveProfile(w http.ResponseWriter, r *http.Request) {
	limits := BatchLimits()
	limits.Hops, limits.ClockSkew = h.Deps.MaxHops(), int64(h.ClockSkew().Seconds())
	h.serveSigned(w, r, federation.HomeProfile{
		Type: federation.HomeProfileType, V: Version, Home: h.Deps.Home, DID: h.Deps.Home.DID(), URL: h.PublicURL,
		Versions: []int{Version}, Limits: limits, Sent: h.Deps.Now().UTC(),
	})
}

package relay

import (
	"net/http"

	"baton/federation"
)

// BatchLimits returns what another home has to take at once, so that this one can send it
// everything.
func BatchLimits() federation.HomeLimits {
	return federation.HomeLimits{Steps: maxItems, Bytes: maxBatchBytes}
}

// serveProfile answers with the profile of this home.
func (h *PeerHandler) serveProfile(w http.ResponseWriter, r *http.Request) {
	limits := BatchLimits()
	limits.Hops, limits.ClockSkew = h.Deps.MaxHops(), int64(h.ClockSkew().Seconds())
	h.tell(w, r, federation.HomeProfile{
		Type: federation.HomeProfileType, V: Version, Home: h.Deps.Home, DID: h.Deps.Home.DID(), URL: h.PublicURL,
		Versions: []int{Version}, Limits: limits, Sent: h.Deps.Now().UTC(),
	})
}

package bridgetest

import (
	"log/slog"

	"baton/bridge"
	"baton/federation"
)

// Contexts keeps in a record what steps refer to, as the gateway gw.example does: so many
// bytes of one context, and of all of one owner; 0 of all is no limit.
func Contexts(blobs federation.Blobs, one, ofDID int64) bridge.Contexts {
	return bridge.Contexts{
		Blobs: blobs, PublicURL: "https://gw.example", Log: slog.New(slog.DiscardHandler),
		Limits: func() (int64, int64) { return one, ofDID },
	}
}

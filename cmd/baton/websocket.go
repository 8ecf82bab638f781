package main

import (
	"net/http"

	"baton/bridge/gateway"
	ircclient "baton/bridge/irc/client"
)

// overWebSocket serves IRC clients over WebSocket with the listener that runs now: a
// reload may bring another one, or none.
type overWebSocket struct{ fleet *gateway.LinkSet }

func (o overWebSocket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, each := range o.fleet.Entries() {
		if clients, ok := each.Link.(*ircclient.Link); ok {
			clients.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

package main

import (
	"net/http"

	ircclient "baton/bridge/irc/client"
)

// overWebSocket serves IRC clients over WebSocket with the listener that runs now: a
// reload may bring another one, or none.
type overWebSocket struct{ fleet *fleet }

func (o overWebSocket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, each := range o.fleet.current.Load().all {
		if clients, ok := each.link.(*ircclient.Link); ok {
			clients.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

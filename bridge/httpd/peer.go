package httpd

import (
	"context"
	"net"
	"net/http"
)

// peerKey is the context key of the process at the other end of a socket.
type peerKey struct{}

// withPeer notes which user opened a connection on a unix socket, as the system reports it.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peerName(socket))
}

// namePeer makes RemoteAddr of a request on a socket the user at the other end, as
// in "uid:1000".
func namePeer(r *http.Request) *http.Request {
	name, ok := r.Context().Value(peerKey{}).(string)
	if !ok {
		return r
	}
	r = r.WithContext(r.Context())
	r.RemoteAddr = name
	return r
}

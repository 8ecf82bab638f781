package httpd

import (
	"context"
	"net"
	"net/http"
)

type peerKey struct{}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peerName(socket))
}

// The user at the other end is written as "uid:1000".
func namePeer(r *http.Request) *http.Request {
	name, ok := r.Context().Value(peerKey{}).(string)
	if !ok {
		return r
	}
	r = r.WithContext(r.Context())
	r.RemoteAddr = name
	return r
}

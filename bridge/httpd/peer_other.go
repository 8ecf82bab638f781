//go:build !linux

package httpd

import "net"

func peerName(*net.UnixConn) string { return "socket" }

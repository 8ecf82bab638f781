package httpd

import (
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

func peerName(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return socketPeer
	}
	name := socketPeer
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			name = "uid:" + strconv.FormatUint(uint64(peer.Uid), 10)
		}
	})
	return name
}

const socketPeer = "socket"

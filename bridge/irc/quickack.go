package irc

import "net"

// QuickAck wraps a TCP connection so that it acknowledges all data at once.
//
// With Nagle's algorithm, a server does not send a line until the previous one is acknowledged. Linux
// delays acknowledgements by up to 40 ms if it has nothing to send. On other systems or connections,
// QuickAck does nothing.
func QuickAck(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return quickConn{tcp}
	}
	return conn
}

type quickConn struct{ *net.TCPConn }

// Read implements [net.Conn]. The system resets the option automatically, so Read sets it again. A
// failure only causes a delay.
func (c quickConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if err == nil {
		quickAck(c.TCPConn)
	}
	return n, err
}

package irc

import "net"

// QuickAck wraps a connection so that it acknowledges all data at once.
//
// Servers that leave Nagle's algorithm on hold back a line until the one before is acknowledged,
// and Linux delays that by up to 40 ms on a side with nothing to send. Elsewhere, and on a
// connection other than TCP, nothing changes.
func QuickAck(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return quickConn{tcp}
	}
	return conn
}

type quickConn struct{ *net.TCPConn }

// Read implements [net.Conn]. The system resets the option automatically, so it is set again after
// each read. A failure costs only a delay.
func (c quickConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if err == nil {
		quickAck(c.TCPConn)
	}
	return n, err
}

package irc

import "net"

// QuickAck wraps a connection so that it acknowledges all data at once.
//
// With Nagle's algorithm, a server does not send a line until the previous one is acknowledged,
// and Linux delays acknowledgements by up to 40 ms if it has nothing to send. On other systems,
// and on connections other than TCP, nothing changes.
func QuickAck(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		return quickConn{tcp}
	}
	return conn
}

type quickConn struct{ *net.TCPConn }

// Read implements [net.Conn]. The system resets the option automatically, so it is set again after
// each read. A failure only causes a delay.
func (c quickConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if err == nil {
		quickAck(c.TCPConn)
	}
	return n, err
}

package server

import (
	"net"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/httpd"
)

// newAddresses returns the counts of each address: its logins, and its steps and AIRC
// messages. All listeners share them.
func (s *Server) newAddresses() (logins, writes credential.Addresses) {
	logins = credential.NewAddresses(func() int { return s.limits.Load().LoginsPerMinute }, time.Minute)
	writes = credential.NewAddresses(func() int { return s.limits.Load().AddressEventsPerMinute }, time.Minute)
	return logins, writes
}

// publicListener is the label of the public HTTP listener in metrics.
const publicListener = "http"

// httpLimits returns the limits of the public HTTP listener.
func (s *Server) httpLimits() *httpd.Limits {
	files := httpd.OpenFiles()
	return &httpd.Limits{
		Connections: func() int { return atMost(s.limits.Load().HTTPConnections, files/httpShare) },
		PerAddress:  func() int { return s.limits.Load().HTTPConnectionsPerAddress },
		Network:     bridge.Subnet,
		Queue:       func() httpd.Queue { return bridge.NewEvictionQueue[net.Conn]() },
		Closed:      func(why httpd.Reason) { s.counters.Closed.WithLabelValues(publicListener, string(why)).Inc() },
		Refused:     func() { s.counters.Limited.WithLabelValues("rest").Inc() },
	}
}

// The parts of the open files that listeners may use: half for HTTP, and a quarter for IRC
// clients. The last quarter is for the record, links and what the gateway fetches.
const (
	httpShare = 2
	ircShare  = 4
)

// atMost returns a limit that is no larger than most. 0 is no limit, of both.
func atMost(limit, most int) int {
	if limit == 0 || most > 0 && limit > most {
		return most
	}
	return limit
}

package configs

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Listener is a TCP listen address of the gateway.
type Listener struct {
	Key     string // such as "http.listen"
	Address string // host:port
	path    string // of the key in the file
}

// Listeners returns the TCP addresses of all listeners, in the order of the file. It omits unix
// sockets.
func (f *File) Listeners() []Listener {
	all := []Listener{{"http.listen", f.HTTP.Listen, "http.listen"}, {"admin.listen", f.Admin.Listen, "admin.listen"}}
	if f.TLS.Mode == ACMEMode {
		all = append(all, Listener{"tls.acme.http_listen", f.ACME.HTTPListen, "tls.acme.http_listen"})
	}
	var walk func(name, path string, table map[string]any)
	walk = func(name, path string, table map[string]any) {
		if name == "irc.freeq" && (table["transport"] == nil || table["transport"] == "exec") {
			return // a child process listens there, on UDP
		}
		for key, value := range table {
			name, path := keyPath(name, key), keyPath(path, key)
			switch value := value.(type) {
			case map[string]any:
				walk(name, path, value)
			case string:
				if (key == "listen" || key == "tls_listen") && !strings.Contains(value, "/") {
					all = append(all, Listener{name, value, path})
				}
			default:
				for i, item := range tablesIn(value) {
					walk(name, itemPath(path, i), item)
				}
			}
		}
	}
	walk("", "", f.tables)
	all = slices.DeleteFunc(all, func(l Listener) bool {
		_, _, err := net.SplitHostPort(l.Address)
		return err != nil // not an address, or a mistake that its owner reports
	})
	slices.SortStableFunc(all, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(f.lines[a.path], f.lines[b.path]), cmp.Compare(a.path, b.path))
	})
	return slices.CompactFunc(all, func(a, b Listener) bool { return a.path == b.path })
}

func (f *File) sharedPorts() {
	all := f.Listeners()
	for i, second := range all {
		for _, first := range all[:i] {
			if overlap(first.Address, second.Address) {
				f.mistakes = append(f.mistakes, f.mistake(second.path, second.Key, "the port of "+first.Key+", "+first.Address+": choose another one"))
				break
			}
		}
	}
}

// The system chooses a free port for 0.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	return portA == portB && portA != "0" && (hostA == hostB || isWildcard(hostA) || isWildcard(hostB))
}

func isWildcard(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}

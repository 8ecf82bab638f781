package identity

// The bounds, for the tests of this package.
const (
	MaxDocuments = maxDocuments
	MaxHosts     = maxHosts
)

// HostsAfter returns how many hosts a client remembers after asking for a turn at
// these.
func HostsAfter(c *Client, hosts ...string) int {
	for _, host := range hosts {
		c.rates.of(host).Allow()
	}
	return len(c.rates.hosts)
}

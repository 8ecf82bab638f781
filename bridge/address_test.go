package bridge_test

import (
	"net/netip"
	"testing"

	"github.com/baton-gateway/baton/bridge"
)

func TestSubnetIsOneIPv4AddressOrAnIPv6Slash64(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:6667":                "192.0.2.7/32",
		"192.0.2.7":                     "192.0.2.7/32",
		"[::ffff:192.0.2.7]:6667":       "192.0.2.7/32",
		"[2001:db8:1:2:3:4:5:6]:6667":   "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:6667":   "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:6667":        "2001:db8:1:3::/64",
		"fe80::1%eth0":                  "fe80::/64",
		"uid 1000":                      "invalid Prefix",
		"":                              "invalid Prefix",
		"192.0.2.7:6667 192.0.2.8:6667": "invalid Prefix",
	} {
		if got := bridge.SubnetOf(remote); got.String() != want {
			t.Errorf("%q is of %s, want %s", remote, got, want)
		}
	}
}

func TestClientAddressTravelsInTheContext(t *testing.T) {
	t.Parallel()
	want := netip.MustParsePrefix("192.0.2.7/32")
	if got := bridge.SubnetFrom(bridge.WithSubnet(t.Context(), want)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := bridge.SubnetFrom(t.Context()); got.IsValid() {
		t.Errorf("a context without a client has the address %s", got)
	}
}

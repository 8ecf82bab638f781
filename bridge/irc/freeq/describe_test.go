package freeq_test

import (
	"testing"
	"time"
)

func TestDescribeNamesThePeer(t *testing.T) {
	h := newHouse(t)
	if d := h.link.Describe(); d.Negotiated != nil || !h.link.Heard().IsZero() {
		t.Errorf("before there is a link: %+v, heard %v", d, h.link.Heard())
	}
	h.run(t)
	d := h.link.Describe()
	for word, want := range map[string]string{
		"protocol": "freeq/s2s/1", "server": theirs, "endpoint_id": h.server.ID(), "capabilities": "act act_route catchup",
		"transport": "tcp", "dialled": "true",
	} {
		if d.Negotiated[word] != want {
			t.Errorf("%s is %q, want %q", word, d.Negotiated[word], want)
		}
	}
	if heard := h.link.Heard(); time.Since(heard) > patience {
		t.Errorf("heard %v", heard)
	}
	if h.link.Home() != theirs || len(d.Channels) != 1 {
		t.Errorf("home %q, channels %v", h.link.Home(), d.Channels)
	}
}

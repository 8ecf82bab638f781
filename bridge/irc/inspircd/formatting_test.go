package inspircd_test

import (
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// coloured is a line with formatting from another link.
func coloured(n byte) federation.Text {
	return federation.Text{
		ID: federation.EventID{n}, Author: scholar, Venue: "#ops", Body: "red and bold",
		Fields:  map[string]string{federation.Formatted: "\x0304,02red\x03 and \x02bold"},
		Arrival: federation.Arrival{Network: "spanningtree", Link: "lib", Name: "scholar", Received: time.Now()},
	}
}

func TestFormattingIsRemovedForAChannelThatBlocksColours(t *testing.T) {
	h, peer := linked(t, nil)
	for n, c := range []struct{ change, want string }{
		{"+n", "\x0304,02red\x03 and \x02bold"},
		{"+c", "red and bold"},
		{"-c+S", "red and bold"},
		{"-S", "\x0304,02red\x03 and \x02bold"},
	} {
		mode(t, peer, "#ops", c.change)
		if err := h.link.DeliverText(waiting(t), coloured(byte(n+1))); err != nil {
			t.Fatal(err)
		}
		if got := await(t, peer, "PRIVMSG").Params[1]; got != c.want {
			t.Errorf("in a channel with %s the line is %q, want %q", c.change, got, c.want)
		}
	}
}

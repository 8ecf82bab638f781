package server

import (
	"context"
	"net"
	"os"
)

// NotifySystemd sends the state of the start to systemd. It does nothing where systemd did not
// start the gateway.
//
// spec: sd_notify(3)
func NotifySystemd(ctx context.Context, state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

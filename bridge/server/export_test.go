package server

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
)

// Rotating is a gateway whose keys can be rotated, without its links.
type Rotating struct {
	Public, Operator *http.ServeMux
	Close            func() error
	Signs            func() ed25519.PublicKey // the key of the home, now
}

// networksOfTests returns the network that publishes keys of the gateway.
func networksOfTests(w Wiring) []bridge.Network { return []bridge.Network{airc.Network(w.Registry)} }

// NewRotating assembles a gateway from a configuration.
func NewRotating(ctx context.Context, file *configs.File) (*Rotating, error) {
	p, err := Open(ctx, file, Options{Networks: networksOfTests, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	links, err := OpenLinks(file, networksOfTests, p.Wiring())
	if err != nil {
		return nil, err
	}
	for _, o := range links {
		if mounted, ok := o.Link.(interface{ Mount(mux *http.ServeMux) }); ok {
			mounted.Mount(p.publicMux)
		}
	}
	r := &Rotating{
		Public: p.publicMux, Operator: http.NewServeMux(), Close: p.Close,
		Signs: func() ed25519.PublicKey { return p.Gateway.Home().Key.Public },
	}
	p.mountOperator(r.Operator, admin.Everybody)
	return r, nil
}

// Still is a gateway of which nothing runs.
type Still struct{ *Server }

// NewStill assembles a gateway from a configuration.
func NewStill(ctx context.Context, file *configs.File) (Still, error) {
	p, err := Open(ctx, file, Options{Networks: networksOfTests, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return Still{}, err
	}
	return Still{p}, Still{p}.ApplyAgain(ctx)
}

// ApplyAgain opens the links of the configuration again and applies them, as SIGHUP does.
func (s Still) ApplyAgain(ctx context.Context) error {
	links, err := OpenLinks(s.file, networksOfTests, s.Wiring())
	if err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	s.Gateway.Links().Apply(ended, links)
	return nil
}

// BlockHome blocks another home, and reports whether the link that runs obeys.
func (s Still) BlockHome(ctx context.Context, home string) (blocked bool, err error) {
	err = s.SetPeerMode(ctx, federation.PeerMode{Domain: home, Mode: "block", Since: time.Now()}, false)
	link, ok := s.Gateway.Links().Named(home).(interface{ Blocked() bool })
	return ok && link.Blocked(), err
}

package main

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"

	"baton/bridge/operatorapi"
	"baton/configs"
)

// Rotating is a gateway whose keys can be rotated, without its links.
type Rotating struct {
	Public, Operator *http.ServeMux
	Close            func() error
	Signs            func() ed25519.PublicKey // the key of the home, now
}

// NewRotating assembles a gateway from a configuration.
func NewRotating(ctx context.Context, file *configs.File) (*Rotating, error) {
	p, err := assemble(ctx, file, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	links, err := openLinks(file, p.wiring())
	if err != nil {
		return nil, err
	}
	for _, o := range links {
		if mounted, ok := o.Link.(interface{ Mount(mux *http.ServeMux) }); ok {
			mounted.Mount(p.publicMux)
		}
	}
	r := &Rotating{
		Public: p.publicMux, Operator: http.NewServeMux(), Close: p.close,
		Signs: func() ed25519.PublicKey { return p.gateway.Home().Key.Public },
	}
	p.mountOperator(r.Operator, operatorapi.Everybody)
	return r, nil
}

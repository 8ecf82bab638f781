package server

import (
	"context"
	"errors"
	"log/slog"

	"baton/configs"
)

// shared reports whether a home may have several gateways.
func shared(file *configs.File) bool { return file.Store.Driver == configs.Postgres }

// takeUp reads what operators changed at other gateways of the home and is kept in memory
// here: the gateway's own keys, the homes that were added, and the modes of peers.
func (p *Server) takeUp(ctx context.Context) error {
	return errors.Join(p.takeUpKeys(ctx), p.homes.peering.TakeUp(ctx), p.takeUpModes(ctx))
}

func (p *Server) takeUpModes(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	return p.readModes(ctx)
}

func (p *Server) takeUpKeys(ctx context.Context) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	changed, err := p.keyring.Reread()
	if changed {
		p.useKeys()
		p.log.LogAttrs(ctx, slog.LevelInfo, "keys read again")
	}
	return err
}

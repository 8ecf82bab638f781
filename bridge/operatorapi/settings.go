package operatorapi

import (
	"context"
	"strings"

	"baton/bridge/operatorapi/contract"
	"baton/bridge/route"
)

func (o *Operator) reloadConfig(ctx context.Context, body route.Body[Act]) (contract.Reloaded, error) {
	ask, err := body.Read()
	if err != nil {
		return contract.Reloaded{}, err
	}
	done, err := o.deps.Server.Reload(ctx, ask.DryRun)
	if err != nil {
		return contract.Reloaded{}, err
	}
	if done.DryRun = ask.DryRun; !done.DryRun {
		o.act(ctx, "config reload", done.File, ask.Reason)
	}
	return done, nil
}

func (o *Operator) setLogLevel(ctx context.Context, body route.Body[LevelAsk]) (contract.LogLevels, error) {
	ask, err := body.Read()
	if err != nil {
		return contract.LogLevels{}, err
	}
	levels, err := o.deps.Server.SetLogLevel(ask.Package, ask.Level, ask.DryRun)
	if err != nil {
		return contract.LogLevels{}, err
	}
	if levels.DryRun = ask.DryRun; !ask.DryRun {
		o.act(ctx, "log level", strings.TrimSpace(ask.Package+" "+ask.Level), ask.Reason)
	}
	return levels, nil
}

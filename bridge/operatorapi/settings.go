package operatorapi

import (
	"context"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// ReloadConfig implements [contract.StrictServerInterface].
func (o *Operator) ReloadConfig(ctx context.Context, req contract.ReloadConfigRequestObject) (contract.ReloadConfigResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	done, err := o.deps.Settings.Reload(ctx, req.Body.DryRun)
	if err != nil {
		return nil, err
	}
	if done.DryRun = req.Body.DryRun; !done.DryRun {
		o.act(ctx, "config reload", done.File, req.Body.Reason)
	}
	return contract.ReloadConfig200JSONResponse(done), nil
}

// SetLogLevel implements [contract.StrictServerInterface].
func (o *Operator) SetLogLevel(ctx context.Context, req contract.SetLogLevelRequestObject) (contract.SetLogLevelResponseObject, error) {
	if err := bodyOf(ctx); err != nil {
		return nil, err
	}
	ask := *req.Body
	levels, err := o.deps.Settings.SetLogLevel(ask.Package, ask.Level, ask.DryRun)
	if err != nil {
		return nil, err
	}
	if levels.DryRun = ask.DryRun; !ask.DryRun {
		o.act(ctx, "log level", strings.TrimSpace(ask.Package+" "+ask.Level), ask.Reason)
	}
	return contract.SetLogLevel200JSONResponse(levels), nil
}

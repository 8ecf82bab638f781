package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
	"baton/bridge/server"
	"baton/configs"
)

// reload applies what may change while the gateway runs, and names the keys that want a
// restart; with dry it compares only. Each step that can fail comes before the first change, so
// that a file with a mistake changes nothing.
func (p *program) reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	file, err := p.reread()
	if err != nil {
		return contract.Reloaded{}, err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	links, err := openLinks(file, p.wiring())
	if err != nil {
		return contract.Reloaded{}, err
	}
	if links, err = p.homes.added.Join(ctx, links); err != nil {
		return contract.Reloaded{}, err
	}
	done := contract.Reloaded{File: file.Name(), Changes: p.settings(file)}
	if dry {
		return done, nil
	}
	for _, change := range done.Changes {
		p.log.LogAttrs(ctx, slog.LevelInfo, "setting changed", slog.String("key", change.Key), slog.Int("line", change.Line), slog.String("effect", string(change.Effect)))
		if change.Effect == contract.SettingRestart {
			p.log.LogAttrs(ctx, slog.LevelWarn, "restart needed", slog.String("key", change.Key))
		}
	}
	links = slices.DeleteFunc(links, func(o server.Entry) bool {
		_, mounted := o.Link.(bridge.Mounted) // its routes are there for good
		return mounted
	})
	if file.Log != p.limited.Log { // else the level that an operator set stays
		p.relevel(file.Log)
	}
	p.limit(file)
	p.configure(file, append(links, p.gateway.Links().Mounted()...))
	p.apply(ctx, append(links, p.gateway.Links().Mounted()...))
	p.log.LogAttrs(ctx, slog.LevelInfo, "configuration read again")
	return done, nil
}

// settings returns the changes of a new reading of the configuration as operators see them.
func (p *program) settings(file *configs.File) []contract.Setting {
	shown := []contract.Setting{}
	for _, c := range file.Changes(p.file, p.limited) {
		shown = append(shown, contract.Setting{Key: c.Key, Before: c.Before, After: c.After, Line: c.Line, Effect: contract.SettingEffect(c.Effect())})
	}
	return shown
}

// operatorSettings implements [operatorapi.Settings].
type operatorSettings struct{ p *program }

// Reload implements [operatorapi.Settings].
func (s operatorSettings) Reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	if s.p.reloads == nil {
		return contract.Reloaded{}, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: "this gateway has no configuration file"}
	}
	done, err := s.p.reloads.Ask(ctx, dry)
	if errors.Is(err, server.ErrEnding) {
		return done, &operatorapi.ProblemError{Status: http.StatusServiceUnavailable, Code: operatorapi.CodeUnavailable, Detail: err.Error()}
	}
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		return done, &operatorapi.ProblemError{Status: http.StatusUnprocessableEntity, Code: operatorapi.CodeFailed, Detail: "nothing changed; " + oneLine(invalid)}
	}
	return done, err
}

// SetLogLevel implements [operatorapi.Settings].
func (s operatorSettings) SetLogLevel(pkg, level string, dry bool) (contract.LogLevels, error) {
	if s.p.levels == nil {
		return contract.LogLevels{}, operatorapi.ErrNoLog()
	}
	return operatorapi.SetLevel(s.p.levels, pkg, level, dry)
}

// reloadCommand has the gateway read its configuration again.
type reloadCommand struct{ changeFlags }

// Run prints each changed key with its effect.
func (cmd reloadCommand) Run(ctx context.Context, c *cli, streams std) error {
	return report(c, streams, func(api *contract.Client) (*http.Response, error) { return api.ReloadConfig(ctx, cmd.act()) }, func(done contract.Reloaded) string {
		return strings.Join(append(text.Settings(done), cmd.said(fmt.Sprintf("%s is read again, %d keys changed", done.File, len(done.Changes)))), "\n")
	})
}

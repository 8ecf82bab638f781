package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/configs"
)

// ErrNoFile is returned by [Server.Reload] of a server without a configuration file.
var ErrNoFile = errors.New("this gateway has no configuration file")

// Reload reads the configuration again and applies its reloadable keys. With dry
// it only compares. It blocks until [Server.Serve] has done it.
func (p *Server) Reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	if p.reloads == nil {
		return contract.Reloaded{}, ErrNoFile
	}
	return p.reloads.Ask(ctx, dry)
}

// reload applies what may change while the gateway runs, and names the keys that want a
// restart; with dry it compares only. Each step that can fail comes before the first change, so
// that a file with a mistake changes nothing.
func (p *Server) reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	file, err := p.options.Reread()
	if err != nil {
		return contract.Reloaded{}, err
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	links, err := OpenLinks(file, p.options.Networks, p.Wiring())
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
	links = slices.DeleteFunc(links, func(o Entry) bool {
		_, mounted := o.Link.(bridge.Mounted) // its routes are there for good
		return mounted
	})
	if file.Log != p.limited.Log { // else the level that an operator set stays
		p.options.Relevel(file.Log)
	}
	p.limit(file)
	p.configure(file, append(links, p.Gateway.Links().Mounted()...))
	p.apply(ctx, append(links, p.Gateway.Links().Mounted()...))
	p.log.LogAttrs(ctx, slog.LevelInfo, "configuration read again")
	return done, nil
}

// settings returns the changes of a new reading of the configuration as operators see them.
func (p *Server) settings(file *configs.File) []contract.Setting {
	shown := []contract.Setting{}
	for _, c := range file.Changes(p.file, p.limited) {
		shown = append(shown, contract.Setting{Key: c.Key, Before: c.Before, After: c.After, Line: c.Line, Effect: contract.SettingEffect(c.Effect())})
	}
	return shown
}

// operatorSettings implements [operatorapi.Settings].
type operatorSettings struct{ p *Server }

// Reload implements [operatorapi.Settings].
func (s operatorSettings) Reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	done, err := s.p.Reload(ctx, dry)
	switch {
	case errors.Is(err, ErrNoFile):
		return done, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: err.Error()}
	case errors.Is(err, ErrEnding):
		return done, &operatorapi.ProblemError{Status: http.StatusServiceUnavailable, Code: operatorapi.CodeUnavailable, Detail: err.Error()}
	}
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		return done, &operatorapi.ProblemError{Status: http.StatusUnprocessableEntity, Code: operatorapi.CodeFailed, Detail: "nothing changed; " + oneLine(invalid)}
	}
	return done, err
}

// SetLogLevel implements [operatorapi.Settings].
func (s operatorSettings) SetLogLevel(pkg, level string, dry bool) (contract.LogLevels, error) {
	if s.p.options.Levels == nil {
		return contract.LogLevels{}, operatorapi.ErrNoLog()
	}
	return operatorapi.SetLevel(s.p.options.Levels, pkg, level, dry)
}

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
func (s *Server) Reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	if s.reloads == nil {
		return contract.Reloaded{}, ErrNoFile
	}
	return s.reloads.Ask(ctx, dry)
}

// reload applies what may change while the gateway runs, and names the keys that want a
// restart; with dry it compares only. Each step that can fail comes before the first change, so
// that a file with a mistake changes nothing.
func (s *Server) reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	file, err := s.options.Reread()
	if err != nil {
		return contract.Reloaded{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	links, err := OpenLinks(file, s.options.Networks, s.Wiring())
	if err != nil {
		return contract.Reloaded{}, err
	}
	if links, err = s.homes.added.Join(ctx, links); err != nil {
		return contract.Reloaded{}, err
	}
	done := contract.Reloaded{File: file.Name(), Changes: s.settings(file)}
	if dry {
		return done, nil
	}
	for _, change := range done.Changes {
		s.log.LogAttrs(ctx, slog.LevelInfo, "setting changed", slog.String("key", change.Key), slog.Int("line", change.Line), slog.String("effect", string(change.Effect)))
		if change.Effect == contract.SettingRestart {
			s.log.LogAttrs(ctx, slog.LevelWarn, "restart needed", slog.String("key", change.Key))
		}
	}
	links = slices.DeleteFunc(links, func(o Entry) bool {
		_, mounted := o.Link.(bridge.Mounted) // its routes are there for good
		return mounted
	})
	if file.Log != s.limited.Log { // else the level that an operator set stays
		s.options.Relevel(file.Log)
	}
	s.limit(file)
	s.configure(file, append(links, s.Gateway.Links().Mounted()...))
	s.apply(ctx, append(links, s.Gateway.Links().Mounted()...))
	s.log.LogAttrs(ctx, slog.LevelInfo, "configuration read again")
	return done, nil
}

// settings returns the changes of a new reading of the configuration as operators see them.
func (s *Server) settings(file *configs.File) []contract.Setting {
	shown := []contract.Setting{}
	for _, c := range file.Changes(s.file, s.limited) {
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

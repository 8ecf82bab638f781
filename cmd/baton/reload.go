package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/configs"
)

// reloadAsk asks the running gateway to read its configuration again.
type reloadAsk struct {
	dry    bool
	answer chan<- reloadAnswer // takes one answer without a reader
}

// reloadAnswer is the result of a reload.
type reloadAnswer struct {
	done contract.Reloaded
	err  error
}

// reloads reads the configuration again at each SIGHUP and each request, until ctx ends: links
// that a reload opens end with ctx, and not with the request.
func (p *program) reloads(ctx context.Context) error {
	for {
		var ask reloadAsk
		select {
		case <-p.hups:
		case ask = <-p.asked:
		case <-ctx.Done():
			return nil
		}
		done, err := p.reload(ctx, ask.dry)
		if err != nil {
			p.log.LogAttrs(ctx, slog.LevelError, "configuration not read again", slog.Any("err", err))
		}
		if ask.answer != nil {
			ask.answer <- reloadAnswer{done, err}
		}
	}
}

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
	done := contract.Reloaded{File: file.Name(), Changes: settings(p.file, p.limited, file)}
	if dry {
		return done, nil
	}
	for _, change := range done.Changes {
		p.log.LogAttrs(ctx, slog.LevelInfo, "setting changed", slog.String("key", change.Key), slog.Int("line", change.Line), slog.String("effect", string(change.Effect)))
		if change.Effect == contract.SettingRestart {
			p.log.LogAttrs(ctx, slog.LevelWarn, "restart needed", slog.String("key", change.Key))
		}
	}
	links = slices.DeleteFunc(links, func(o gateway.Entry) bool {
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

// settings returns the changes of a new reading of the configuration. A key that wants a restart
// is compared with the file that the gateway started with, and any other with the last reading.
func settings(started, last, file *configs.File) []contract.Setting {
	changes := []contract.Setting{}
	add := func(old *configs.File, restart bool) {
		for _, change := range file.Diff(old) {
			effect := effectOf(change.Key)
			if (effect == contract.SettingRestart) == restart {
				changes = append(changes, contract.Setting{Key: change.Key, Before: change.Before, After: change.After, Line: change.Line, Effect: effect})
			}
		}
	}
	add(last, false)
	add(started, true)
	slices.SortStableFunc(changes, func(a, b contract.Setting) int { return cmp.Compare(a.Line, b.Line) })
	return changes
}

// effectOf returns how a changed key takes effect.
func effectOf(key string) contract.SettingEffect {
	table, _, _ := strings.Cut(key, ".")
	table, _, _ = strings.Cut(table, "[")
	switch {
	case key == "log.format", slices.Contains([]string{
		"home", "http", "tls", "admin", "fetch", "identity", "keys", "store", "relay", "airc", "rest", "mcp", "a2a", "webhooks", "metrics",
	}, table):
		return contract.SettingRestart
	case slices.Contains([]string{"policy", "limits", "retention", "log", "bindings"}, table):
		return contract.SettingApplied
	}
	return contract.SettingReconnect
}

// operatorSettings implements [operatorapi.Settings].
type operatorSettings struct{ p *program }

// Reload implements [operatorapi.Settings].
func (s operatorSettings) Reload(ctx context.Context, dry bool) (contract.Reloaded, error) {
	if s.p.reread == nil {
		return contract.Reloaded{}, &operatorapi.ProblemError{Status: http.StatusConflict, Code: operatorapi.CodeFailed, Detail: "this gateway has no configuration file"}
	}
	answer := make(chan reloadAnswer, 1)
	select {
	case s.p.asked <- reloadAsk{dry, answer}:
	case <-ctx.Done():
		return contract.Reloaded{}, ctx.Err()
	case <-s.p.ended:
		return contract.Reloaded{}, errEnding()
	}
	select {
	case got := <-answer:
		return got.done, reloadProblem(got.err)
	case <-ctx.Done():
		return contract.Reloaded{}, ctx.Err()
	case <-s.p.ended:
		return contract.Reloaded{}, errEnding()
	}
}

// errEnding is the problem of a request to a gateway that ends.
func errEnding() error {
	return &operatorapi.ProblemError{Status: http.StatusServiceUnavailable, Code: operatorapi.CodeUnavailable, Detail: "the gateway is stopping"}
}

// reloadProblem returns an error with the lines of the mistakes in the file.
func reloadProblem(err error) error {
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		return &operatorapi.ProblemError{Status: http.StatusUnprocessableEntity, Code: operatorapi.CodeFailed, Detail: "nothing changed; " + oneLine(invalid)}
	}
	return err
}

// reloadCommand has the gateway read its configuration again.
type reloadCommand struct{ changeFlags }

// Run prints each changed key with its effect.
func (cmd reloadCommand) Run(ctx context.Context, c *cli, streams std) error {
	return report(c, streams, func(api *contract.Client) (*http.Response, error) { return api.ReloadConfig(ctx, cmd.act()) }, func(done contract.Reloaded) string {
		var lines []string
		for _, s := range done.Changes {
			lines = append(lines, settingLine(done.File, s))
		}
		return strings.Join(append(lines, cmd.said(fmt.Sprintf("%s is read again, %d keys changed", done.File, len(done.Changes)))), "\n")
	})
}

// settingLine returns one changed key as a line.
func settingLine(file string, s contract.Setting) string {
	place := file
	if s.Line > 0 {
		place = fmt.Sprintf("%s:%d", file, s.Line)
	}
	was, is := s.Before, s.After
	if was == "" {
		was = "(not set)"
	}
	if is == "" {
		is = "(not set)"
	}
	effect := map[contract.SettingEffect]string{
		contract.SettingApplied: "applied", contract.SettingReconnect: "its link connects anew", contract.SettingRestart: "restart needed",
	}[s.Effect]
	return fmt.Sprintf("%s: %s: %s -> %s (%s)", place, s.Key, was, is, effect)
}

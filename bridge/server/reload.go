package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/configs"
)

// ErrEnding is returned by [Reloads.Ask] during shutdown.
var ErrEnding = errors.New("the gateway is stopping")

// Reloads reloads the configuration of a running gateway, one reload at a time. The links opened by
// a reload end with the gateway, not with the request.
type Reloads[T any] struct {
	reload func(ctx context.Context, dry bool) (T, error)
	asked  chan reloadAsk[T]
	ended  chan struct{} // closed when shutdown begins
}

type reloadAsk[T any] struct {
	dry    bool
	answer chan<- reloadAnswer[T] // has capacity for one answer without a reader
}

type reloadAnswer[T any] struct {
	done T
	err  error
}

// NewReloads returns Reloads that call reload. With dry, reload only compares.
func NewReloads[T any](reload func(ctx context.Context, dry bool) (T, error)) *Reloads[T] {
	return &Reloads[T]{reload: reload, asked: make(chan reloadAsk[T]), ended: make(chan struct{})}
}

// Run reloads at each signal and at each request, until ctx ends. It logs each failure.
func (r *Reloads[T]) Run(ctx context.Context, signals <-chan os.Signal, log *slog.Logger) {
	context.AfterFunc(ctx, func() { close(r.ended) })
	for {
		var ask reloadAsk[T]
		select {
		case <-signals:
		case ask = <-r.asked:
		case <-ctx.Done():
			return
		}
		done, err := r.reload(ctx, ask.dry)
		if err != nil {
			log.LogAttrs(ctx, slog.LevelError, "configuration not reloaded", slog.Any("err", err))
		}
		if ask.answer != nil {
			ask.answer <- reloadAnswer[T]{done, err}
		}
	}
}

// Ask makes [Reloads.Run] reload, and blocks until the reload is done. It returns [ErrEnding] if
// the gateway ends first, and the error of ctx if ctx ends.
func (r *Reloads[T]) Ask(ctx context.Context, dry bool) (T, error) {
	var none T
	answer := make(chan reloadAnswer[T], 1)
	select {
	case r.asked <- reloadAsk[T]{dry, answer}:
	case <-ctx.Done():
		return none, ctx.Err()
	case <-r.ended:
		return none, ErrEnding
	}
	select {
	case got := <-answer:
		return got.done, got.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-r.ended:
		return none, ErrEnding
	}
}

// Reload reloads the configuration and applies its reloadable keys, or with dry only compares. It
// blocks until [Server.Serve] has applied it, and all removed links are closed. If the file has a
// mistake, nothing changes, and the error is a [*bridge.ProblemError] with its line.
func (s *Server) Reload(ctx context.Context, dry bool) (admin.Reloaded, error) {
	if s.reloads == nil {
		return admin.Reloaded{}, &bridge.ProblemError{Status: http.StatusConflict, Code: bridge.CodeFailed, Detail: "this gateway has no configuration file"}
	}
	done, err := s.reloads.Ask(ctx, dry)
	if errors.Is(err, ErrEnding) {
		return done, &bridge.ProblemError{Status: http.StatusServiceUnavailable, Code: bridge.CodeUnavailable, Detail: err.Error()}
	}
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		return done, &bridge.ProblemError{Status: http.StatusUnprocessableEntity, Code: bridge.CodeFailed, Detail: "nothing changed; " + bridge.OneLine(invalid)}
	}
	return done, err
}

// All operations that can fail precede the first change, so that a mistake changes nothing.
func (s *Server) reload(ctx context.Context, dry bool) (admin.Reloaded, error) {
	file, err := s.options.Reread()
	if err != nil {
		return admin.Reloaded{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	links, err := OpenLinks(file, s.options.Networks, s.Wiring())
	if err != nil {
		return admin.Reloaded{}, err
	}
	if links, err = s.homes.join(ctx, links); err != nil {
		return admin.Reloaded{}, err
	}
	done := admin.Reloaded{File: file.Name(), Changes: s.settings(file)}
	if dry {
		return done, nil
	}
	for _, change := range done.Changes {
		s.log.LogAttrs(ctx, slog.LevelInfo, "setting changed", slog.String("key", change.Key), slog.Int("line", change.Line), slog.String("effect", string(change.Effect)))
		if change.Effect == admin.SettingRestart {
			s.log.LogAttrs(ctx, slog.LevelWarn, "restart needed", slog.String("key", change.Key))
		}
	}
	links = slices.DeleteFunc(links, func(o Entry) bool {
		_, mounted := o.Link.(bridge.Mounted) // its routes are permanent
		return mounted
	})
	if file.Log != s.limited.Log { // otherwise the level set by an operator is kept
		s.options.Relevel(file.Log)
	}
	s.reloadCertificate(ctx, file)
	s.limit(file)
	s.configure(file, append(links, s.Gateway.Links().Mounted()...))
	s.apply(ctx, append(links, s.Gateway.Links().Mounted()...))
	s.log.LogAttrs(ctx, slog.LevelInfo, "configuration reloaded")
	return done, nil
}

func (s *Server) settings(file *configs.File) []admin.Setting {
	shown := []admin.Setting{}
	for _, c := range file.Changes(s.file, s.limited) {
		shown = append(shown, admin.Setting{Key: c.Key, Before: c.Before, After: c.After, Line: c.Line, Effect: admin.SettingEffect(c.Effect())})
	}
	return shown
}

// SetLogLevel sets the level of a package and its subpackages, or of all packages for "", and
// returns the new levels. A dry run changes nothing. Its error is a [*bridge.ProblemError].
func (s *Server) SetLogLevel(pkg, name string, dry bool) (admin.LogLevels, error) {
	if s.options.Levels == nil {
		return admin.LogLevels{}, &bridge.ProblemError{Status: http.StatusConflict, Code: bridge.CodeFailed, Detail: "this gateway keeps no log"}
	}
	names := []string{"debug", "info", "warn", "error"}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil || !slices.Contains(names, name) {
		return admin.LogLevels{}, bridge.UsageProblem("level: want " + strings.Join(names, ", "))
	}
	if pkg != "" && !strings.HasPrefix(pkg, "bridge") && !strings.HasPrefix(pkg, "federation") && pkg != "cmd/baton" {
		return admin.LogLevels{}, bridge.UsageProblem("package: want the folder of a package, such as bridge/irc/freeq")
	}
	if !dry {
		s.options.Levels.Set(pkg, level)
	}
	general, folders := s.options.Levels.All()
	all := admin.LogLevels{Level: strings.ToLower(general.String()), Packages: map[string]string{}}
	for folder, level := range folders {
		all.Packages[folder] = strings.ToLower(level.String())
	}
	return all, nil
}

// A replica keeps some operator state in memory, such as the blocks, the added homes and the
// gateway's own keys. It reloads this state after a change at another replica, and reads all other
// state from the record with each request.

const changedTopic = "changed"

// rereadEvery is the polling interval for changes of other replicas, because wake-ups may be lost.
const rereadEvery = 5 * time.Second

// TellReplicas makes the other replicas of the home reload changed state.
func (g *Gateway) TellReplicas() { g.deps.PubSub.Wake(changedTopic) }

// FollowReplicas reloads the state that operators change at other replicas, until ctx ends. It
// calls reread for the caller's own state.
func (g *Gateway) FollowReplicas(ctx context.Context, reread func(ctx context.Context) error) {
	wake, stop := g.deps.PubSub.Subscribe(changedTopic)
	defer stop()
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := errors.Join(reread(ctx), g.ReadBlocks(ctx)); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "changes of other replicas not read", slog.Any("err", err))
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func shared(file *configs.File) bool { return file.Store.Driver == configs.Postgres }

func (s *Server) takeUp(ctx context.Context) error {
	return errors.Join(s.takeUpKeys(ctx), s.homes.peering.TakeUp(ctx), s.takeUpModes(ctx))
}

func (s *Server) takeUpModes(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.readModes(ctx)
}

func (s *Server) takeUpKeys(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	changed, err := s.keyring.Reread()
	if changed {
		s.useKeys()
		s.log.LogAttrs(ctx, slog.LevelInfo, "keys reloaded")
	}
	return err
}

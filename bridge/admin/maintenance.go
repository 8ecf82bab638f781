package admin

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) examine(ctx context.Context, _ struct{}) (Page[Diagnosis], error) {
	return Page[Diagnosis]{Items: o.deps.Server.Examine(ctx, false)}, nil
}

func (o *Operator) examineOnline(ctx context.Context, _ struct{}) (Page[Diagnosis], error) {
	return Page[Diagnosis]{Items: o.deps.Server.Examine(ctx, true)}, nil
}

func (o *Operator) acceptClock(ctx context.Context, body route.Body[Act]) (Acted, error) {
	ask, err := body.Read()
	if err != nil {
		return Acted{}, err
	}
	doubt, changed := o.deps.Server.ClockDoubt(), 0
	if doubt != "" {
		changed = 1
	}
	if changed > 0 && !ask.DryRun {
		o.deps.Server.AcceptClock(callerOf(ctx).actor)
	}
	return o.acted(ctx, "clock accept", doubt, ask, changed), nil
}

func (o *Operator) getPolicy(_ context.Context, _ struct{}) (Policy, error) {
	return o.deps.Server.Policy(), nil
}

func (o *Operator) reloadConfig(ctx context.Context, body route.Body[Act]) (Reloaded, error) {
	ask, err := body.Read()
	if err != nil {
		return Reloaded{}, err
	}
	done, err := o.deps.Server.Reload(ctx, ask.DryRun)
	if err != nil {
		return Reloaded{}, err
	}
	if done.DryRun = ask.DryRun; !done.DryRun {
		o.act(ctx, "config reload", done.File, ask.Reason)
	}
	return done, nil
}

func (o *Operator) setLogLevel(ctx context.Context, body route.Body[LevelAsk]) (LogLevels, error) {
	ask, err := body.Read()
	if err != nil {
		return LogLevels{}, err
	}
	levels, err := o.deps.Server.SetLogLevel(ask.Package, ask.Level, ask.DryRun)
	if err != nil {
		return LogLevels{}, err
	}
	if levels.DryRun = ask.DryRun; !ask.DryRun {
		o.act(ctx, "log level", strings.TrimSpace(ask.Package+" "+ask.Level), ask.Reason)
	}
	return levels, nil
}

const defaultOverlap = 24 * time.Hour

func (o *Operator) keys(context.Context, Paging) (listing[Key], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[Key], error) {
		keys, err := o.deps.Server.ListKeys(ctx, time.Now())
		if keys == nil {
			keys = []Key{}
		}
		return Page[Key]{Items: keys}, err
	}
	return listing[Key]{page: page}, nil
}

func (o *Operator) rotateKey(ctx context.Context, in KeyRotation) (Key, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Key{}, err
	}
	ask, overlap := ask, defaultOverlap
	if ask.Overlap != "" {
		var err error
		if overlap, err = time.ParseDuration(ask.Overlap); err != nil {
			return Key{}, usage("overlap: want a duration, such as 24h")
		}
	}
	name := in.Name
	key, err := o.deps.Server.RotateKey(ctx, name, overlap, time.Now())
	if err != nil {
		return Key{}, err
	}
	o.act(ctx, "keys rotate", name, ask.Reason)
	return key, nil
}

// The holder of a backup can sign as the gateway, so the audit log has each copy. A client detects
// a partial archive.
func (o *Operator) backup(ctx context.Context, _ struct{}) (route.File, error) {
	archive, err := o.deps.Server.Backup(ctx)
	if err != nil {
		return route.File{}, err
	}
	o.act(ctx, "backup", "record and keys", "")
	return route.File{Content: archive}, nil
}

func (o *Operator) audit(_ context.Context, query AuditQuery) (listing[Change], error) {
	f := federation.ChangeFilter{Actor: query.Actor}
	if text := query.Since; text != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return listing[Change]{}, usage("since is a time such as 2026-11-21T12:00:00Z")
		}
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[Change], error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[Change]{}, err
		}
		found, err := o.deps.Record.Changes(ctx, f, before, limit)
		p := Page[Change]{Items: []Change{}}
		for _, c := range found {
			p.Items = append(p.Items, Change{Time: Moment(c.At), Actor: c.Actor, What: c.What, Subject: c.Subject, Reason: c.Reason})
		}
		if len(found) == limit {
			p.NextCursor = strconv.FormatInt(found[limit-1].ID, 10)
		}
		return p, err
	}
	return listing[Change]{page, watchPage(page)}, nil
}

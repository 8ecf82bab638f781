package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

// Status is the overview of a gateway.
type Status struct {
	Readiness

	Home     federation.HomeID `json:"home"`
	Version  string            `json:"version"`
	Revision string            `json:"revision"`
	Started  Moment            `json:"started"`
	Links    []LinkStanding    `json:"links"` // with the links to other homes
	Waiting  int               `json:"waiting"`
	Oldest   Moment            `json:"oldest,omitzero"` // of the pending deliveries
	Feeds    []Shape           `json:"feeds"`           // the destinations with the most rows
	Dead     int               `json:"dead"`
	Rates    []Rate            `json:"rates"`
	Disk     int               `json:"disk"`              // percent that is free
	Examined Moment            `json:"examined,omitzero"` // time of the checks; empty if there are none yet
	Checks   []Diagnosis       `json:"checks"`            // the last results of doctor
	Samples  []Sample          `json:"samples"`           // of the last day, oldest first
}

// Rate counts the steps in a time until now.
type Rate struct {
	Over    string `json:"over" enum:"5m,1h"`
	Steps   int    `json:"steps"` // all judged steps
	Refused int    `json:"refused"`
	Bytes   int64  `json:"bytes"`
}

// Sample is the state of the gateway at one time.
type Sample struct {
	Time    Moment `json:"time"`
	Steps   int64  `json:"steps"` // filed since the previous sample
	Waiting int    `json:"waiting"`
	Dead    int    `json:"dead"`
	Down    int    `json:"down"` // links that do not work
	Disk    int    `json:"disk"` // percent that is free
}

const maxFeeds = 10

// status counts without reading rows.
func (o *Operator) status(ctx context.Context, _ route.None) (Status, error) {
	s := o.deps.Server.Status(ctx)
	now := time.Now()
	links := o.deps.Links.Statuses()
	s.Links = make([]LinkStanding, len(links))
	for i, l := range links {
		s.Links[i] = StandingOf(l)
	}
	shapes, err := o.shapes(ctx, Paging{})
	if err != nil {
		return s, err
	}
	feeds, err := shapes.page(ctx, "", 0)
	if err != nil {
		return s, err
	}
	for _, f := range feeds.Items {
		if !f.Oldest.IsZero() && (s.Oldest.IsZero() || time.Time(f.Oldest).Before(time.Time(s.Oldest))) {
			s.Oldest = f.Oldest
		}
	}
	slices.SortStableFunc(feeds.Items, func(a, b Shape) int { return cmp.Compare(b.Rows, a.Rows) })
	s.Feeds = feeds.Items[:min(len(feeds.Items), maxFeeds)]
	troubles, err := o.countTroubles(ctx, route.None{})
	if err != nil {
		return s, err
	}
	s.Waiting, s.Dead = troubles.Waiting, troubles.Dead
	for _, rate := range []Rate{{Over: "5m"}, {Over: "1h"}} {
		over, _ := time.ParseDuration(rate.Over)
		for _, sender := range o.deps.Gateway.TopSenders(senderLink, over, MaxLimit, now) {
			rate.Steps, rate.Refused, rate.Bytes = rate.Steps+sender.Steps, rate.Refused+sender.Refused, rate.Bytes+sender.Bytes
		}
		s.Rates = append(s.Rates, rate)
	}
	s.Samples, err = o.samples(ctx, now)
	return s, err
}

// samples also returns the number of steps since the last sample.
func (o *Operator) samples(ctx context.Context, now time.Time) ([]Sample, error) {
	kept, err := o.deps.Record.Samples(ctx, now.Add(-federation.ChartAge))
	all := make([]Sample, len(kept))
	for i, each := range kept {
		all[i] = Sample{Time: Moment(each.At), Waiting: each.Waiting, Dead: each.Dead, Down: each.Down, Disk: each.Disk}
		if i > 0 {
			all[i].Steps = max(0, each.Step-kept[i-1].Step)
		}
	}
	return all, err
}

// StandingOf returns the state of a link.
func StandingOf(s bridge.LinkStatus) LinkStanding {
	return LinkStanding{Name: s.Link.Name(), Network: s.Link.Network(), State: s.Status.State, LastError: s.Status.LastError}
}

// Works reports whether the link is up, here or on another replica.
func (l LinkStanding) Works() bool { return l.State == bridge.LinkUp || l.State == bridge.LinkStandby }

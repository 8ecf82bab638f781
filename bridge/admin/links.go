package admin

import (
	"context"
	"fmt"

	"baton/bridge"
)

// linkList is the list of links. It has no second page.
type linkList struct{ o *Operator }

func (o *Operator) links(context.Context, Watching) (listing[Link], error) {
	l := linkList{o}
	return listing[Link]{l.page, l.news}, nil
}

func (l linkList) page(ctx context.Context, _ string, _ int) (Page[Link], error) {
	links, err := l.read(ctx)
	return Page[Link]{Items: links}, err
}

func (l linkList) read(ctx context.Context) ([]Link, error) {
	links := []Link{}
	for _, s := range l.o.deps.Links.Statuses() {
		shaped, err := l.o.shapeLink(ctx, s)
		if err != nil {
			return nil, err
		}
		links = append(links, shaped)
	}
	return links, nil
}

// news returns the links that changed. That something was heard is no change.
func (l linkList) news(ctx context.Context, _ string, _ int) func() ([]Link, error) {
	told := map[string]Link{}
	return func() ([]Link, error) {
		links, err := l.read(ctx)
		if err != nil {
			return nil, err
		}
		var items []Link
		for _, link := range links {
			quiet := link
			quiet.LastHeard = Moment{}
			if before, ok := told[link.Name]; !ok || before != quiet {
				items = append(items, link)
			}
			told[link.Name] = quiet
		}
		return items, nil
	}
}

// shapeLink returns a link as it stands.
func (o *Operator) shapeLink(ctx context.Context, s bridge.LinkStatus) (Link, error) {
	backlog, err := o.deps.Record.Backlog(ctx, s.Link.Name())
	if err != nil {
		return Link{}, fmt.Errorf("count what link %s is owed: %w", s.Link.Name(), err)
	}
	shaped := Link{
		Name: s.Link.Name(), Network: s.Link.Network(), State: string(s.Status.State),
		Waiting: backlog.Rows, Oldest: Moment(backlog.Oldest), NextDial: Moment(s.Status.NextDial), LastError: s.Status.LastError,
	}
	if hearer, ok := s.Link.(bridge.Hearer); ok {
		shaped.LastHeard = Moment(hearer.Heard())
	}
	return shaped, nil
}

func (o *Operator) getLink(ctx context.Context, in ByName) (Link, error) {
	name := in.Name
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() != name {
			continue
		}
		shaped, err := o.shapeLink(ctx, s)
		if err != nil {
			return Link{}, err
		}
		detail := &LinkDetail{Negotiated: map[string]string{}, Channels: []string{}, NotCarried: []string{}}
		limits := o.deps.Limits.Current()
		detail.Limits = LinkLimits{UserEventsPerMinute: limits.UserEventsPerMinute, LinkEventsPerSecond: limits.LinkEventsPerSecond}
		if describer, ok := s.Link.(bridge.Describer); ok {
			d := describer.Describe()
			detail.SkewSeconds = d.Skew.Seconds()
			if d.Negotiated != nil {
				detail.Negotiated = d.Negotiated
			}
			detail.Channels = append(detail.Channels, d.Channels...)
			detail.NotCarried = append(detail.NotCarried, d.NotCarried...)
			detail.Obstacles = d.Obstacles
		}
		shaped.LinkDetail = detail
		return shaped, nil
	}
	return Link{}, errNone("link " + name)
}

func (o *Operator) changeLink(ctx context.Context, in LinkChange) (Acted, error) {
	act := map[string]func(name string) error{"dial": o.deps.Links.Dial, "down": o.deps.Links.Disconnect, "up": o.deps.Links.Connect}[in.Verb]
	if act == nil {
		return Acted{}, errNone("verb " + in.Verb + " of links")
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	state, ok := o.linkState(in.Name)
	if !ok {
		return Acted{}, errNone("link " + in.Name)
	}
	changed := 1
	if state == bridge.LinkUp && in.Verb != "down" || state == bridge.LinkDown && in.Verb == "down" {
		changed = 0
	}
	if !ask.DryRun && changed > 0 {
		err := act(in.Name)
		if isNotFound(err) { // a reload took the link away
			err = errNone("link " + in.Name)
		}
		if err != nil {
			return Acted{}, err
		}
	}
	return o.acted(ctx, "link "+in.Verb, in.Name, ask, changed), nil
}

// linkState returns the state of a link, and false for a name of none.
func (o *Operator) linkState(name string) (bridge.LinkState, bool) {
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() == name {
			return s.Status.State, true
		}
	}
	return "", false
}

// linked reports whether there is a link of a name.
func (o *Operator) linked(name string) bool {
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() == name {
			return true
		}
	}
	return false
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

const maxNameBytes = 256

// The origins of a binding.
const (
	FromConfiguration = "configuration"
	FromRecord        = "record"
)

type bindingList struct{ o *Operator }

func (o *Operator) bindings(context.Context, Paging) (listing[Binding], error) {
	return listing[Binding]{page: bindingList{o}.page}, nil
}

// The cursor is the last name, after its network and a slash.
func (l bindingList) page(ctx context.Context, cursor string, limit int) (Page[Binding], error) {
	network, name, _ := strings.Cut(cursor, "/")
	kept, err := l.o.deps.Record.BoundNames(ctx, network, name, limit)
	if err != nil {
		return Page[Binding]{}, err
	}
	items := make([]Binding, 0, limit)
	for _, b := range kept {
		items = append(items, shapeBinding(b, FromRecord))
	}
	after := federation.BoundName{Network: network, Name: name}
	for _, b := range l.o.deps.Record.Names.Configured() {
		if cmp.Or(cmp.Compare(b.Network, after.Network), cmp.Compare(b.Name, after.Name)) > 0 {
			items = append(items, shapeBinding(b, FromConfiguration))
		}
	}
	slices.SortStableFunc(items, func(a, b Binding) int { return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Name, b.Name)) })
	page := Page[Binding]{Items: items}
	if len(items) > limit || len(kept) == limit {
		page.Items = items[:limit]
		last := page.Items[limit-1]
		page.NextCursor = last.Network + "/" + last.Name
	}
	return page, nil
}

func (o *Operator) configured(network, name string) (federation.BoundName, bool) {
	for _, b := range o.deps.Record.Names.Configured() {
		if b.Network == network && b.Name == name {
			return b, true
		}
	}
	return federation.BoundName{}, false
}

func (o *Operator) bindName(ctx context.Context, in NameBinding) (Binding, error) {
	network, name := in.Network, in.Name
	bind, err := in.Body.Read()
	if err != nil {
		return Binding{}, err
	}
	did, err := parseDID("did", bind.DID)
	if err == nil && o.deps.CheckDID != nil {
		if err = o.deps.CheckDID(did); err != nil {
			err = usage("did: no party can prove it: " + err.Error())
		}
	}
	switch {
	case err != nil:
		return Binding{}, err
	case !o.linked(network):
		return Binding{}, errNone("link " + network)
	case agents.ReservedName(network, name):
		return Binding{}, usage(name + " stands for a DID by itself")
	case name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return Binding{}, usage(fmt.Sprintf("a name is 1 to %d bytes without spaces", maxNameBytes))
	}
	if b, ok := o.configured(network, name); ok {
		return Binding{}, conflict(fmt.Sprintf("the configuration binds %s on %s to %s", name, network, b.DID))
	}
	b := federation.BoundName{Network: network, Name: name, DID: did, Vouch: bind.Vouch, Since: time.Now()}
	err = o.bind(ctx, b, bind.DryRun)
	if errors.Is(err, federation.ErrTaken) {
		return Binding{}, conflict(fmt.Sprintf("%s on %s is bound to another DID: remove that binding first", name, network))
	}
	if err != nil {
		return Binding{}, err
	}
	if !bind.DryRun {
		o.act(ctx, "bind add", network+" "+name+" "+string(did), bind.Reason)
	}
	return shapeBinding(b, FromRecord), nil
}

// bind stores a binding, or with dry checks whether that is possible.
func (o *Operator) bind(ctx context.Context, b federation.BoundName, dry bool) error {
	if !dry {
		return o.deps.Record.BindName(ctx, b)
	}
	kept, err := o.deps.Record.BoundName(ctx, b.Network, b.Name)
	switch {
	case isNotFound(err):
		return nil
	case err == nil && kept.DID != b.DID:
		return federation.ErrTaken
	}
	return err
}

// unbind ends a binding, or with dry checks whether it exists.
func (o *Operator) unbind(ctx context.Context, network, name string, dry bool) error {
	if !dry {
		return o.deps.Record.UnbindName(ctx, network, name)
	}
	_, err := o.deps.Record.BoundName(ctx, network, name)
	return err
}

func (o *Operator) unbindName(ctx context.Context, in NameUnbinding) (Empty, error) {
	ask := in.Act()
	network, name := in.Network, in.Name
	if _, ok := o.configured(network, name); ok {
		return Empty{}, conflict(fmt.Sprintf("the configuration binds %s on %s: remove that binding there", name, network))
	}
	err := o.unbind(ctx, network, name, ask.DryRun)
	if isNotFound(err) {
		return Empty{}, errNone("binding of " + name + " on " + network)
	}
	if err != nil {
		return Empty{}, err
	}
	if !ask.DryRun {
		o.act(ctx, "bind remove", network+" "+name, ask.Reason)
	}
	return Empty{}, nil
}

func conflict(detail string) error {
	return &ProblemError{Status: http.StatusConflict, Code: CodeFailed, Detail: detail}
}

// The next caller that registers the handle inherits its inbox and consent.
func (o *Operator) releaseHandle(ctx context.Context, in ActOnHandle) (Acted, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	ask, handle := ask, strings.TrimPrefix(in.Handle, "@")
	if !agents.ReadHere(handle) {
		return Acted{}, usage(handle + " is not the handle of an agent here")
	}
	agent, err := o.deps.Record.Agent(ctx, handle)
	if err == nil && !ask.DryRun {
		err = o.deps.Record.ReleaseHandle(ctx, handle, time.Now())
	}
	if isNotFound(err) {
		return Acted{}, errNone("agent " + handle)
	}
	if err != nil {
		return Acted{}, err
	}
	changed := 1
	if !agent.Released.IsZero() {
		changed = 0
	}
	return o.acted(ctx, "airc release", handle, ask, changed), nil
}

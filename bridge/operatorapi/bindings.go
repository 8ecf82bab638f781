package operatorapi

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

	"baton/federation"
)

// maxNameBytes bounds a name on a network.
const maxNameBytes = 256

// bindingList is GET bindings.
type bindingList struct{ o *Operator }

func (o *Operator) bindings(r *http.Request) (listing, error) {
	return listing{page: bindingList{o}.page}, known(r.URL.Query())
}

// page merges the bindings of the configuration with those of the record. A cursor
// is the last name, after its network and a slash.
func (l bindingList) page(ctx context.Context, cursor string, limit int) (any, error) {
	network, name, _ := strings.Cut(cursor, "/")
	kept, err := l.o.deps.Bindings.BoundNames(ctx, network, name, limit)
	if err != nil {
		return nil, err
	}
	items := make([]Binding, 0, limit)
	for _, b := range kept {
		items = append(items, shapeBinding(b, FromRecord))
	}
	after := federation.BoundName{Network: network, Name: name}
	for _, b := range l.o.deps.Bindings.Configured() {
		if compareNames(b, after) > 0 {
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

func compareNames(a, b federation.BoundName) int {
	return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Name, b.Name))
}

// configured returns the binding of a name in the configuration.
func (o *Operator) configured(network, name string) (federation.BoundName, bool) {
	for _, b := range o.deps.Bindings.Configured() {
		if b.Network == network && b.Name == name {
			return b, true
		}
	}
	return federation.BoundName{}, false
}

// putBinding answers PUT bindings/{network}/{name}. A name stands for one DID.
func (o *Operator) putBinding(r *http.Request) (answer, error) {
	network, name := r.PathValue("network"), r.PathValue("name")
	var bind Bind
	if err := readBody(r, &bind); err != nil {
		return answer{}, err
	}
	did, err := parseDID("did", bind.DID)
	if err == nil && o.deps.CheckDID != nil {
		if err = o.deps.CheckDID(did); err != nil {
			err = usage("did: no party can prove it: " + err.Error())
		}
	}
	switch {
	case err != nil:
		return answer{}, err
	case !o.linked(network):
		return answer{}, errNone("link " + network)
	case federation.ReservedName(network, name):
		return answer{}, usage(name + " stands for a DID by itself")
	case name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return answer{}, usage(fmt.Sprintf("a name is 1 to %d bytes without spaces", maxNameBytes))
	}
	if b, ok := o.configured(network, name); ok {
		return answer{}, conflict(fmt.Sprintf("the configuration binds %s on %s to %s", name, network, b.DID))
	}
	b := federation.BoundName{Network: network, Name: name, DID: did, Vouch: bind.Vouch, Since: time.Now()}
	err = o.bind(r.Context(), b, bind.DryRun)
	if errors.Is(err, federation.ErrTaken) {
		return answer{}, conflict(fmt.Sprintf("%s on %s stands for another DID: remove that binding first", name, network))
	}
	if err != nil {
		return answer{}, err
	}
	if !bind.DryRun {
		o.act(r, "bind add", network+" "+name+" "+string(did), bind.Reason)
	}
	return answer{body: shapeBinding(b, FromRecord)}, nil
}

// bind keeps a binding, or dry looks whether it could.
func (o *Operator) bind(ctx context.Context, b federation.BoundName, dry bool) error {
	if !dry {
		return o.deps.Bindings.BindName(ctx, b)
	}
	kept, err := o.deps.Bindings.BoundName(ctx, b.Network, b.Name)
	switch {
	case isNotFound(err):
		return nil
	case err == nil && kept.DID != b.DID:
		return federation.ErrTaken
	}
	return err
}

// unbind ends a binding, or dry looks whether there is one.
func (o *Operator) unbind(ctx context.Context, network, name string, dry bool) error {
	if !dry {
		return o.deps.Bindings.UnbindName(ctx, network, name)
	}
	_, err := o.deps.Bindings.BoundName(ctx, network, name)
	return err
}

// deleteBinding answers DELETE bindings/{network}/{name}. It has no body: what others
// have there is in the query.
func (o *Operator) deleteBinding(r *http.Request) (answer, error) {
	query := r.URL.Query()
	if err := known(query, "reason", "dry_run"); err != nil {
		return answer{}, err
	}
	ask := Act{Reason: query.Get("reason"), DryRun: query.Has("dry_run")}
	network, name := r.PathValue("network"), r.PathValue("name")
	if _, ok := o.configured(network, name); ok {
		return answer{}, conflict(fmt.Sprintf("the configuration binds %s on %s: take it out there", name, network))
	}
	err := o.unbind(r.Context(), network, name, ask.DryRun)
	if isNotFound(err) {
		return answer{}, errNone("binding of " + name + " on " + network)
	}
	if err != nil {
		return answer{}, err
	}
	if !ask.DryRun {
		o.act(r, "bind remove", network+" "+name, ask.Reason)
	}
	return answer{body: struct{}{}}, nil
}

// conflict is the problem of a request that something else stands against.
func conflict(detail string) error {
	return &ProblemError{Status: http.StatusConflict, Code: CodeFailed, Detail: detail}
}

package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/voicefile"
)

func (b *base) nativePrefix() string {
	return string(b.ports.Home.DID()) + ":dir:" + federation.EscapeDID(b.name) + ":"
}

// native returns "" for a DID not derived from the directory.
func (b *base) native(did federation.DID) string {
	part, ok := strings.CutPrefix(string(did), b.nativePrefix())
	if !ok || strings.Contains(part, ":") {
		return ""
	}
	name, err := url.PathUnescape(part)
	if err != nil || federation.EscapeDID(name) != part {
		return ""
	}
	return name
}

// Some networks name only the signer of a step, so nativeOf also accepts the did:key that the
// gateway keeps for an agent. Only the keys of configured names are known.
func (b *base) nativeOf(did federation.DID) string {
	if name := b.native(did); name != "" {
		return name
	}
	return b.kept()[did]
}

// The result is the configured DID, a bound DID, or a DID derived from the name. The call blocks on
// the record.
func (b *base) didOf(ctx context.Context, name string) (federation.DID, error) {
	if did, ok := b.agents[name]; ok {
		return did, nil
	}
	bound, err := b.ports.Bindings.Bound(ctx, b.name, name)
	switch {
	case err == nil:
		return bound.DID, nil
	case !errors.Is(err, federation.ErrNotFound):
		return "", fmt.Errorf("look up %s: %w", name, err)
	}
	return federation.ParseDID(b.nativePrefix() + federation.EscapeDID(name))
}

// nameOf returns "" for none. It blocks on the record.
func (b *base) nameOf(ctx context.Context, did federation.DID) (string, error) {
	for name, each := range b.agents {
		if each == did {
			return name, nil
		}
	}
	if name := b.nativeOf(did); name != "" {
		return name, nil
	}
	names, err := b.ports.Bindings.Of(ctx, did)
	if err != nil {
		return "", fmt.Errorf("look up names of %s: %w", did, err)
	}
	if i := slices.IndexFunc(names, func(n federation.BoundName) bool { return n.Network == b.name }); i >= 0 {
		return names[i].Name, nil
	}
	if did == "" {
		return "", nil
	}
	for name, each := range b.agents { // another DID of a configured agent
		if same, err := b.ports.Gateway.Same(ctx, did, each); err != nil {
			return "", err
		} else if same {
			return name, nil
		}
	}
	return "", nil
}

func asRefusal(d stepbuilder.Draft, err error) error {
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && problem.Status < http.StatusInternalServerError {
		return &federation.RefusalError{Code: federation.InvalidTag, Event: d.ID, Handoff: d.ID, Detail: problem.Detail}
	}
	return err
}

// A deferred step is not an error. A step over its rate limit is retried later, because a file has
// no sender to retry it.
func asNotNow(link string, err error) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	switch {
	case ok && refused.Waits:
		return nil
	case ok && (refused.Code == federation.RateLimited || refused.Code == federation.InboxFull):
		return away(link, errors.New(refused.Error())) // not wrapped, so that it does not count as a refusal here
	}
	return err
}

// The sidecar contract has no code for most refusals, so the detail names the code.
func rejection(refused *federation.RefusalError) *voicefile.Error {
	switch refused.Code { //nolint:exhaustive // the detail has all other codes
	case federation.DeadlinePassed:
		return &voicefile.Error{Code: voicefile.Expired, Detail: refused.Sentence()}
	case federation.InvalidContext:
		return &voicefile.Error{Code: voicefile.BadTranscript, Detail: refused.Error()}
	}
	return &voicefile.Error{Code: voicefile.Declined, Detail: string(refused.Code) + ": " + refused.Sentence()}
}

func ending(view federation.View, note string) *voicefile.Error {
	switch view.State {
	case federation.Declined:
		return &voicefile.Error{Code: voicefile.Declined, Detail: cmp.Or(note, "the agent declined")}
	case federation.Failed:
		return &voicefile.Error{Code: voicefile.Failed, Detail: cmp.Or(note, "the agent could not do it")}
	case federation.Cancelled:
		return &voicefile.Error{Code: voicefile.Cancelled, Detail: cmp.Or(note, "the offerer cancelled it")}
	case federation.Expired:
		return &voicefile.Error{Code: voicefile.Expired, Detail: cmp.Or(note, "it was not accepted in time")}
	case federation.None, federation.Offered, federation.Open, federation.Assigned, federation.Completed:
	}
	return nil
}

func away(link string, err error) error {
	return &federation.UnavailableError{What: "link " + link, Err: err}
}

// The gateway notifies the offerer.
func denied(ev federation.Event, why string) error {
	return federation.Refuse(ev, federation.PolicyDenied, why)
}

const (
	hubPending   = "pending"
	hubAccepted  = "accepted"
	hubCompleted = "completed"
	hubRejected  = "rejected"
)

type hubAnswer struct {
	HandoffID string `json:"handoff_id,omitempty"`
	Status    string `json:"status,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"`

	code int // HTTP status
	file []byte
}

// hubError hides the text of unknown errors.
func hubError(id string, err error) hubAnswer {
	if invalid, ok := errors.AsType[*voicefile.Error](err); ok {
		return hubAnswer{HandoffID: id, Status: hubRejected, Reason: invalid.Error(), code: http.StatusUnprocessableEntity}
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return hubAnswer{HandoffID: id, Status: hubRejected, Reason: refused.Error(), code: http.StatusUnprocessableEntity}
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return hubAnswer{Error: "not now; try again", code: http.StatusServiceUnavailable}
	}
	return hubAnswer{Error: "internal error; see the log of the gateway", code: http.StatusInternalServerError}
}

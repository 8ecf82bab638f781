package relay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"baton/federation"
)

// PathHeader is the header with the homes that steps came through, the sender last. No
// signature covers it. It is a header over HTTPS and through a hub alike.
const PathHeader = "Baton-Path"

// TraceHeader is the header of W3C Trace Context. It is a header over HTTPS and through a hub alike.
const TraceHeader = "Traceparent"

// Envelope is a message of one home to another: a body and its headers.
type Envelope struct {
	Body      []byte
	Signature string
	// Path is the homes that the steps came through, from the home of the handoff to the sender.
	// It ends loops sooner than the IDs of the steps do. No signature covers it, so it serves no
	// other purpose.
	Path []federation.HomeID
	// Trace is the span in which the first step was sent, for the traces of operators; "" for none. No
	// signature covers it.
	Trace string
}

// NewEnvelope returns the envelope of a body and the HTTP or NATS header that came with it.
func NewEnvelope(body []byte, header http.Header) Envelope {
	e := Envelope{Body: body, Signature: header.Get(federation.SignatureHeader), Trace: header.Get(TraceHeader)}
	if path := header.Get(PathHeader); path != "" {
		for name := range strings.SplitSeq(path, ",") {
			e.Path = append(e.Path, federation.HomeID(strings.TrimSpace(name)))
		}
	}
	return e
}

// Header returns the header that carries the signature and the path.
func (e Envelope) Header() http.Header {
	header := http.Header{federation.SignatureHeader: {e.Signature}}
	if len(e.Path) > 0 {
		names := make([]string, len(e.Path))
		for i, home := range e.Path {
			names[i] = string(home)
		}
		header.Set(PathHeader, strings.Join(names, ", "))
	}
	if e.Trace != "" {
		header.Set(TraceHeader, e.Trace)
	}
	return header
}

// through returns the path of an envelope that is from a home. An envelope without a path
// came from that home alone.
func (e Envelope) through(from federation.HomeID) ([]federation.HomeID, error) {
	if len(e.Path) == 0 {
		return []federation.HomeID{from}, nil
	}
	if e.Path[len(e.Path)-1] != from {
		return nil, fmt.Errorf("its path does not end at %q", from)
	}
	return e.Path, nil
}

// hops returns the path with which this home sends a step in a handoff of a home. The path begins
// at the home of the handoff, and ends here.
func (d Deps) hops(of federation.HomeID, ev federation.Event) []federation.HomeID {
	switch {
	case of == d.Home:
		return []federation.HomeID{d.Home}
	case len(ev.Arrival.Path) == 0: // a step that entered here
		return []federation.HomeID{of, d.Home}
	}
	return append(slices.Clone(ev.Arrival.Path), d.Home)
}

// checkPath refuses a step that was here before, or came through too many homes.
func (d Deps) checkPath(ev federation.Event, path []federation.HomeID) error {
	switch most := d.MaxHops(); {
	case slices.Contains(path, d.Home):
		return federation.Refuse(ev, federation.PolicyDenied, "it goes in circles: it has been here")
	case most > 0 && len(path) > most:
		return federation.Refuse(ev, federation.PolicyDenied, fmt.Sprintf("it came through more than %d homes", most))
	}
	return nil
}

// checkForwarded refuses a step that another home forwards with the ruling of a third home, unless
// an operator moved the mailbox of a party from there to here.
func (d Deps) checkForwarded(ctx context.Context, from federation.HomeID, ev federation.Event) error {
	view, err := d.Record.View(ctx, ev.Handoff)
	if err != nil {
		return fmt.Errorf("read handoff %s: %w", ev.Handoff, err)
	}
	parties := view.Others("")
	if !view.Exists() {
		parties = []federation.DID{ev.To}
	}
	for _, did := range parties {
		if did != "" && d.Mailboxes.MovedHere(ctx, did, from) {
			return nil
		}
	}
	return federation.Refuse(ev, federation.WrongSender, "the ruling is not the sender's own, nor of a party that moved here from there")
}

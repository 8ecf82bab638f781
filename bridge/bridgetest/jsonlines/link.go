package jsonlines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
)

// maxLineBytes is longer than an offer with the longest context.
const maxLineBytes = 64 << 10

type message struct {
	ID      string `json:"id"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Title   string `json:"title,omitempty"`
	Handoff string `json:"handoff,omitempty"`
	Verb    string `json:"verb,omitempty"`
	Note    string `json:"note,omitempty"`
	Filed   bool   `json:"filed,omitempty"`
	Refused string `json:"refused,omitempty"`
	Retry   bool   `json:"retry,omitempty"`
	Taken   bool   `json:"taken,omitempty"`
}

// delivery is a step sent to the peer. Its channel is closed when the peer has the step.
type delivery struct {
	message

	taken chan struct{}
}

// Link is one configured peer. The goroutine in Run owns the connection.
type Link struct {
	cfg   Config
	ports bridge.Ports
	steps stepbuilder.Builder
	log   *slog.Logger
	out   chan delivery
}

// Name implements [bridge.Link].
func (l *Link) Name() string { return l.cfg.Name }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// Carries implements [bridge.Link]: the steps of handoffs with a party named on the peer.
func (l *Link) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	for _, party := range after.Others(ev.Actor()) {
		names, err := l.ports.Bindings.Of(ctx, party)
		if err != nil {
			return false, fmt.Errorf("look up names of %s: %w", party, err)
		}
		if slices.ContainsFunc(names, func(b federation.BoundName) bool { return b.Network == l.cfg.Name }) {
			return true, nil
		}
	}
	return false, nil
}

// Deliver implements [bridge.Link]. It returns nil after the peer has answered.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	ev := d.Entry.Event
	out := delivery{taken: make(chan struct{}), message: message{
		ID: ev.ID.String(), Handoff: ev.Handoff.String(), Verb: string(ev.Verb), From: string(ev.Actor()), To: string(ev.To), Title: ev.Title, Note: ev.Note,
	}}
	away := &federation.UnavailableError{What: "link " + l.cfg.Name, Err: errors.New("the peer has not answered")}
	select {
	case l.out <- out:
	case <-ctx.Done():
		return away
	}
	select {
	case <-out.taken:
		return nil
	case <-ctx.Done(): // the connection has ended, or the outbox stops
		return away
	}
}

// Run implements [bridge.Link].
func (l *Link) Run(ctx context.Context, up func()) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", l.cfg.Address)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the reader
	lines := make(chan []byte)
	group.Go(func() error { return read(ctx, conn, lines) })
	group.Go(func() error { return l.serve(ctx, conn, lines) })
	up()
	return group.Wait()
}

func read(ctx context.Context, conn io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(conn)
	scanner.Buffer(nil, maxLineBytes)
	for scanner.Scan() {
		select {
		case lines <- slices.Clone(scanner.Bytes()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return io.EOF
}

func (l *Link) serve(ctx context.Context, conn io.Writer, lines <-chan []byte) error {
	pending := map[string]chan struct{}{} // without an answer, by the IDs of their steps
	write := json.NewEncoder(conn)
	for {
		var out message
		select {
		case text := <-lines:
			m, err := l.parse(ctx, text)
			if taken := pending[m.ID]; m.Taken && taken != nil {
				delete(pending, m.ID)
				close(taken)
				continue
			}
			if err == nil {
				err = l.file(ctx, m, string(text))
			}
			out = answer(m.ID, err)
		case d := <-l.out:
			pending[d.ID], out = d.taken, d.message
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := write.Encode(out); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
}

var errLine = errors.New("the line is no message")

func (l *Link) parse(ctx context.Context, text []byte) (message, error) {
	var m message
	if err := federation.DecodeJSON(text, &m); err != nil {
		l.log.LogAttrs(ctx, slog.LevelInfo, "line not read", slog.Any("err", err))
		l.ports.Metrics.BadInput.WithLabelValues(network, l.cfg.Name, "json").Inc()
		return message{}, errLine
	}
	return m, nil
}

// The gateway signs the step for the DID that the operator bound to the name, and stores the line
// as evidence. Repeating the line repeats the step.
func (l *Link) file(ctx context.Context, m message, line string) error {
	id, err := federation.ParseEventID(m.ID)
	if err != nil {
		return &federation.RefusalError{Code: federation.InvalidEventID}
	}
	from, err := l.ports.Bindings.Bound(ctx, l.cfg.Name, m.From)
	if errors.Is(err, federation.ErrNotFound) || err == nil && !from.Vouch {
		return &federation.RefusalError{Code: federation.NeedSignature}
	}
	if err != nil {
		return err
	}
	draft := stepbuilder.Draft{
		ID: id, From: from.DID, Name: m.From, Proved: true, // the operator trusts the peer with the name
		Verb: federation.Verb(m.Verb), Title: m.Title, Note: m.Note, Original: line,
	}
	var view federation.View // zero for an offer
	if draft.Verb == federation.Offer {
		if draft.To, err = federation.ParseDID(m.To); err != nil {
			return &federation.RefusalError{Code: federation.InvalidTarget}
		}
	} else if view, err = l.handoff(ctx, m.Handoff); err != nil {
		return err
	}
	ev, losses, err := l.steps.Vouch(ctx, draft, view, time.Now())
	if err != nil {
		return err
	}
	for _, loss := range losses {
		l.log.LogAttrs(ctx, slog.LevelInfo, "content does not fit the step", slog.String("event_id", m.ID), slog.String("field", loss.Field), slog.String("reason", loss.Why))
	}
	_, err = l.ports.Gateway.Submit(ctx, ev)
	return err
}

func (l *Link) handoff(ctx context.Context, text string) (federation.View, error) {
	id, err := federation.ParseEventID(text)
	if err != nil {
		return federation.View{}, &federation.RefusalError{Code: federation.UnknownHandoff}
	}
	view, err := l.ports.Gateway.View(ctx, id)
	if err == nil && !view.Exists() {
		err = &federation.RefusalError{Code: federation.UnknownHandoff}
	}
	return view, err
}

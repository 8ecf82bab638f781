package freeq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

var (
	_ bridge.Hearer    = (*Link)(nil)
	_ bridge.Describer = (*Link)(nil)
	_ bridge.Homed     = (*Link)(nil)
)

func (s *session) agree() map[string]string {
	capabilities := slices.Sorted(slices.Values(s.greeting.Capabilities))
	return map[string]string{
		"protocol": "freeq/s2s/1", "server": clip(s.greeting.ServerName), "endpoint_id": s.link.cfg.EndpointID, "our_endpoint_id": s.link.id,
		"transport": string(s.link.cfg.Transport), "dialled": strconv.FormatBool(s.conn.dialled), "capabilities": clip(strings.Join(capabilities, " ")),
	}
}

// Describe implements [bridge.Describer].
func (l *Link) Describe() bridge.Description {
	d := bridge.Description{Channels: l.Channels(), NotCarried: []string{
		"a step whose tags are longer than " + strconv.Itoa(translate.MaxTagBytes) + " bytes",
		"a step of a handoff of a third home",
		"the answer to a step that is refused at once",
	}, Obstacles: l.obstacles()}
	if s := l.live.Load(); s != nil {
		d.Negotiated = s.agreed
	}
	return d
}

// Other versions do not work with freeq servers: they write their log into the stream, or use another
// protocol.
//
// spec: freeq-s2s "What works against freeq's iroh 0.97"
const installDumbpipe = "cargo install dumbpipe --version 0.40.1 --locked"

func (l *Link) obstacles() (found []string) {
	if strings.HasPrefix(l.cfg.PeerAPI, "http://") && !l.deps.HTTP.FetchPrivate {
		found = append(found, "receipts and steps wait: the keys at peer_api "+l.cfg.PeerAPI+
			" are not read over plain http; use https, or set allow_private in [fetch]")
	}
	if l.cfg.Transport != Exec {
		return found
	}
	var programs []string
	if l.cfg.dials() {
		programs = append(programs, l.cfg.DialCommand[0])
	}
	if l.cfg.Listen != "" {
		programs = append(programs, l.cfg.ListenCommand[0])
	}
	for _, program := range slices.Compact(programs) {
		if _, err := exec.LookPath(program); err != nil {
			found = append(found, "the link cannot connect: "+program+" is not installed; run "+installDumbpipe+
				", or name the program in dial_command and listen_command")
		}
	}
	return found
}

var _ bridge.Explainer = (*Link)(nil)

// Explain implements [bridge.Explainer] with the command that starts the server.
//
// spec: freeq-s2s "What a freeq operator sets"
func (l *Link) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s, a freeq-server, must be started with these flags besides its own:

freeq-server \
  --iroh --iroh-port %s \
  --db-path freeq.db \
  --web-addr %s \
  --server-name %s \
  --s2s-allowed-peers %s \
`, l.cfg.ServerName, l.irohPort(), l.webAddress(), l.cfg.ServerName, l.id)
	if l.cfg.Listen != "" {
		fmt.Fprintf(&b, "  --s2s-peers %s@%s \\\n", l.id, l.cfg.Listen)
	}
	fmt.Fprintf(&b, `  --s2s-peer-api %s=%s

The database may have any path. What listens at --web-addr is reached as %s; a proxy in front speaks TLS.
Its endpoint id must be %s: the public half of iroh-key.secret in its data
directory, which it logs at the start. It fetches keys from %s/api/v1/signing-keys/.
`, l.id, l.deps.PublicURL, l.cfg.PeerAPI, l.cfg.EndpointID, l.deps.PublicURL)
	if l.local() {
		fmt.Fprintf(&b, `
warning: http.public_url is %s, which is an address of this machine: the server reaches it only if it
runs here. Set it to the address under which other machines reach this gateway.
`, l.deps.PublicURL)
	}
	if l.id > l.cfg.EndpointID {
		fmt.Fprintf(&b, `
warning: the endpoint id of this gateway is larger than that of the server, which then refuses new
connections for half a minute after a crash. Run "baton keys create endpoint --smallest --force" and
tell the server's operator the new id.
`)
	}
	return b.String()
}

func (l *Link) irohPort() string {
	for _, at := range l.cfg.ticket().direct {
		return fmt.Sprint(at.Port())
	}
	return "4433"
}

func (l *Link) webAddress() string {
	u, err := url.Parse(l.cfg.PeerAPI)
	switch {
	case err != nil || u.Scheme == "https": // plain HTTP behind a proxy
		return "127.0.0.1:8080"
	case u.Port() == "":
		return "0.0.0.0:80"
	}
	return "0.0.0.0:" + u.Port()
}

func (l *Link) local() bool {
	u, err := url.Parse(l.deps.PublicURL)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

func (s *session) inquire(ctx context.Context, p *pendingRuling, now time.Time) {
	code, detail := s.link.outcome(ctx, p, now)
	if code != "" {
		if err := s.link.deps.Rulings.RejectPending(s.Submitting, p.held, code, detail); err != nil { //nolint:contextcheck // it outlives the connection
			s.log.LogAttrs(ctx, slog.LevelError, "refused step not given up", slog.Any("err", err))
		}
	}
	s.Post(ctx, func() { p.asking = false })
}

// spec: freeq-rest "Actions"
type action struct {
	Events []actionEvent `json:"events"`
}

type actionEvent struct {
	EventID   string  `json:"event_id"`
	State     *string `json:"confirm_state"` // null for a receipt
	Canonical string  `json:"canonical"`
	Signature string  `json:"signature"`
	Actor     string  `json:"actor_did"`
	Venue     string  `json:"venue"`
	Timestamp int64   `json:"timestamp"` // unix seconds of receipt
}

// outcome returns "" while the home may still confirm the step. A home does not report refusals: a
// refused event is simply missing.
func (l *Link) outcome(ctx context.Context, p *pendingRuling, now time.Time) (code federation.RefusalCode, detail string) {
	ev := p.held.Event
	if now.Sub(p.held.Since) > maxWait {
		return federation.IllegalStep, "its home did not answer for " + maxWait.String()
	}
	var found action
	err := l.ask(ctx, actionsPath.Join(ev.Handoff.String()), nil, &found)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.UnknownHandoff, "its home no longer has the handoff"
	case err != nil:
		return l.overdue(p, now)
	}
	i := slices.IndexFunc(found.Events, func(e actionEvent) bool { return e.EventID == ev.ID.String() })
	switch {
	case len(found.Events) == 0:
		return "", ""
	case i < 0:
		return federation.IllegalStep, "its home did not accept it"
	case found.Events[i].State != nil && *found.Events[i].State == "superseded":
		return federation.IllegalStep, "its home took another step first"
	}
	return "", "" // not judged yet, or confirmed and its receipt arrives with the next route
}

// A missing response after the deadline counts as refused.
func (l *Link) overdue(p *pendingRuling, now time.Time) (code federation.RefusalCode, detail string) {
	due, verb := p.view.Deadline, p.held.Event.Verb
	if !due.IsZero() && (verb == federation.Accept || verb == federation.Claim) && now.After(due.Add(lastRoute)) {
		return federation.DeadlinePassed, "its home did not confirm it in time"
	}
	return "", ""
}

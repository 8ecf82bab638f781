package macp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// Runtime is one [[macp.runtimes]] table: another operator's runtime.
type Runtime struct {
	Name        string `toml:"name"`
	URL         string `toml:"url"`
	TokenFile   string `toml:"token_file"`
	Participant string `toml:"participant"`
	DID         string `toml:"did"`
	Profile     string `toml:"profile"`
}

// taskFollowOn is the profile of a runtime with the task mode: the responsibility has moved, and the
// work continues in a session of that mode.
const taskFollowOn = "task-follow-on"

// check joins all mistakes, each a [*bridge.KeyError].
func (r Runtime) check() error {
	var mistakes []error
	mistake := func(key, why string) { mistakes = append(mistakes, &bridge.KeyError{Key: key, Why: why}) }
	if !federation.ValidName(r.Name) {
		mistake("name", "is required: lower-case letters, digits and hyphens")
	}
	if at, err := url.Parse(r.URL); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || strings.Trim(at.Path, "/") != "" {
		mistake("url", `want "https://host:port"`)
	}
	if r.TokenFile == "" {
		mistake("token_file", "is required")
	}
	if strings.TrimSpace(r.Participant) != r.Participant || r.Participant == "" {
		mistake("participant", "is required: the name of this gateway at the runtime")
	}
	if _, err := federation.ParseDID(r.DID); err != nil {
		mistake("did", "want a DID, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
	}
	if r.Profile != transfer && r.Profile != taskFollowOn {
		mistake("profile", fmt.Sprintf("want %q or %q", transfer, taskFollowOn))
	}
	return errors.Join(mistakes...)
}

// Runtimes describes other operators' runtimes. Each link is a participant there.
func Runtimes(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "macp.runtimes", Many: true,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := Runtime{Profile: transfer}
			t.Decode(&cfg)
			if err := cfg.check(); err != nil {
				return nil, err
			}
			token, err := p.Secrets.Secret(cfg.TokenFile)
			if err != nil {
				return nil, &bridge.KeyError{Key: "token_file", Why: err.Error()}
			}
			log := p.Log.With(slog.String("network", network), slog.String("link", cfg.Name))
			return &Foreign{cfg: cfg, did: federation.DID(cfg.DID), token: token, ports: p, deps: deps, log: log}, nil
		},
	}
}

// Foreign is another operator's runtime, in which the gateway participates for one DID. It keeps a
// copy of each session's history.
type Foreign struct {
	cfg   Runtime
	did   federation.DID
	token string
	ports bridge.Ports
	deps  Deps
	log   *slog.Logger
	conn  *foreignConn // while Run runs
	// noTasks reports that the profile needs the task mode, but the runtime does not have it.
	noTasks atomic.Bool
}

var (
	_ bridge.InboxReader = (*Foreign)(nil)
	_ bridge.Describer   = (*Foreign)(nil)
)

// Name implements [bridge.Link].
func (f *Foreign) Name() string { return f.cfg.Name }

// Network implements [bridge.Link].
func (*Foreign) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to a sender of the runtime needs no channel.
func (*Foreign) ReadsInbox() {}

// Describe implements [bridge.Describer].
func (f *Foreign) Describe() bridge.Description {
	if !f.noTasks.Load() {
		return bridge.Description{}
	}
	return bridge.Description{Obstacles: []string{
		"work is reported by signals: the runtime does not have " + macpmode.TaskMode + ", which the profile " + taskFollowOn + " needs; set profile = \"" + transfer + "\"",
	}}
}

func (f *Foreign) prefix() string { return network + "/at/" + f.cfg.Name + "/" }

func (f *Foreign) sessionJournal(id string) string { return f.prefix() + "session/" + id }

func (f *Foreign) handoffJournal(id federation.HandoffID) string {
	return f.prefix() + "handoff/" + id.String()
}

func (f *Foreign) senderDID(sender string) federation.DID {
	if sender == f.cfg.Participant {
		return f.did
	}
	return federation.DID(string(f.ports.Home.DID()) + ":macp:" + f.cfg.Name + ":" + federation.EscapeDID(sender))
}

// sender returns "" if the DID is not a sender of this runtime.
func (f *Foreign) sender(did federation.DID) string {
	name, ok := strings.CutPrefix(string(did), string(f.ports.Home.DID())+":macp:"+f.cfg.Name+":")
	text, err := url.PathUnescape(name)
	if !ok || err != nil {
		return ""
	}
	return text
}

// Carries implements [bridge.Link]. The link carries offers of the participant to senders of the
// runtime, and all steps of handoffs with a session there.
func (f *Foreign) Carries(ctx context.Context, ev federation.Event, after federation.View) (bool, error) {
	if ev.Arrival.Link == f.cfg.Name {
		return false, nil
	}
	ours, err := f.ports.Gateway.Same(ctx, after.Offerer, f.did)
	if err != nil {
		return false, err
	}
	if ours && f.sender(after.Offeree) != "" {
		return true, nil
	}
	_, err = f.deps.Journals.JournalLength(ctx, f.handoffJournal(after.ID))
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("look up the session of %s: %w", after.ID, err)
	}
	return err == nil, nil
}

// Run implements [bridge.Link]. It follows the sessions of the participant until the connection breaks
// or ctx ends.
func (f *Foreign) Run(ctx context.Context, up func()) error {
	c := newForeignConn(f)
	defer c.close()
	f.conn = c
	if err := c.initialize(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	c.group = group
	group.Go(fault.Func(func() error { return c.resume(ctx) }))
	group.Go(fault.Func(func() error { return c.watchSessions(ctx) }))
	group.Go(fault.Func(func() error { return c.watchSignals(ctx) }))
	up()
	return group.Wait()
}

type foreignConn struct {
	*Foreign

	client   *http.Client
	group    *errgroup.Group
	mu       sync.Mutex
	followed map[string]bool
	tasks    bool
}

const maxFollowed = 4096

func newForeignConn(f *Foreign) *foreignConn {
	protocols := new(http.Protocols)
	if strings.HasPrefix(f.cfg.URL, "http:") {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	transport := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{SendPingTimeout: pingEach, PingTimeout: pingEach}}
	return &foreignConn{Foreign: f, client: &http.Client{Transport: transport}, followed: map[string]bool{}}
}

const (
	pingEach    = 15 * time.Second // detects an unresponsive runtime
	callTimeout = 20 * time.Second
	lookEach    = 30 * time.Second // a session's state is not on its stream
)

func (c *foreignConn) close() { c.client.CloseIdleConnections() }

func (c *foreignConn) address(method string) string {
	return strings.TrimSuffix(c.cfg.URL, "/") + rpcPath + method
}

func foreignCall[Req, Res any](ctx context.Context, c *foreignConn, method string, req *Req) (*Res, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := connect.NewRequest(req)
	request.Header().Set("Authorization", "Bearer "+c.token)
	answer, err := connect.NewClient[Req, Res](c.client, c.address(method), clientOptions()...).CallUnary(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return answer.Msg, nil
}

func clientOptions() []connect.ClientOption {
	return []connect.ClientOption{connect.WithGRPC(), connect.WithReadMaxBytes(maxBodyBytes)}
}

// A runtime without the task mode gets signals about work.
func (c *foreignConn) initialize(ctx context.Context) error {
	answer, err := foreignCall[macpv1.InitializeRequest, macpv1.InitializeResponse](ctx, c, "Initialize", &macpv1.InitializeRequest{
		SupportedProtocolVersions: []string{macpmode.Version}, ClientInfo: &macpv1.ClientInfo{Name: "baton", Version: c.deps.Version},
	})
	if err != nil {
		return err
	}
	if !slices.Contains(answer.GetSupportedModes(), macpmode.Mode) {
		return fmt.Errorf("the runtime does not have %s; its modes are %v", macpmode.Mode, answer.GetSupportedModes())
	}
	wanted := c.cfg.Profile == taskFollowOn
	c.tasks = wanted && slices.Contains(answer.GetSupportedModes(), macpmode.TaskMode)
	if c.noTasks.Store(wanted && !c.tasks); wanted && !c.tasks {
		c.ports.Metrics.BadInput.WithLabelValues(network, c.cfg.Name, "no-task-mode").Inc()
		c.log.LogAttrs(ctx, slog.LevelWarn, "work is reported by signals", slog.String("reason", "the runtime does not have "+macpmode.TaskMode))
	}
	return nil
}

func (c *foreignConn) refused(e *macpv1.MACPError) error {
	why := errors.New(e.GetCode() + ": " + e.GetMessage())
	switch macpmode.Code(e.GetCode()) {
	case macpmode.RateLimited, macpmode.InternalError, macpmode.Unauthenticated:
		return &federation.UnavailableError{What: "runtime " + c.cfg.Name, Err: why}
	case macpmode.Forbidden, macpmode.PolicyDenied:
		return &federation.RefusalError{Code: federation.PolicyDenied, Detail: why.Error()}
	case macpmode.SessionNotFound, macpmode.SessionNotOpen, macpmode.SessionAlreadyExists, macpmode.InvalidEnvelope, macpmode.InvalidRequest,
		macpmode.UnsupportedVersion, macpmode.ModeNotSupported, macpmode.PayloadTooLarge, macpmode.InvalidSessionID, macpmode.UnknownPolicyVersion,
		macpmode.InvalidPolicyDefinition, macpmode.HistoryUnavailable:
	}
	return &federation.RefusalError{Code: federation.IllegalStep, Detail: why.Error()}
}

func (c *foreignConn) resume(ctx context.Context) error {
	prefix := c.prefix() + "session/"
	after := ""
	for {
		names, err := c.deps.Journals.JournalNames(ctx, prefix, after, defaultPage)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := c.follow(ctx, strings.TrimPrefix(name, prefix), true); err != nil {
				return err
			}
			after = name
		}
	}
}

func (c *foreignConn) watchSessions(ctx context.Context) error {
	request := connect.NewRequest(&macpv1.WatchSessionsRequest{})
	request.Header().Set("Authorization", "Bearer "+c.token)
	stream, err := connect.NewClient[macpv1.WatchSessionsRequest, macpv1.WatchSessionsResponse](c.client, c.address("WatchSessions"), clientOptions()...).
		CallServerStream(ctx, request)
	if err != nil {
		return fmt.Errorf("watch sessions: %w", err)
	}
	defer stream.Close()
	for stream.Receive() {
		s := stream.Msg().GetEvent().GetSession()
		if !c.follows(s) {
			continue
		}
		if err := c.follow(ctx, s.GetSessionId(), false); err != nil {
			return err
		}
	}
	return fmt.Errorf("watch sessions: %w", orEnded(stream.Err()))
}

// The copies of other owners' closed sessions are on record or were removed. A new copy would file
// the offers again.
func (c *foreignConn) follows(s *macpv1.SessionMetadata) bool {
	ours := s.GetInitiator() == c.cfg.Participant
	switch {
	case s.GetMode() != macpmode.Mode && (!c.tasks || s.GetMode() != macpmode.TaskMode):
		return false
	case !ours && !slices.Contains(s.GetParticipants(), c.cfg.Participant):
		return false
	}
	return ours || s.GetState() == macpv1.SessionState_SESSION_STATE_OPEN || s.GetState() == macpv1.SessionState_SESSION_STATE_SUSPENDED
}

var errStreamEnded = errors.New("the runtime ended the stream")

func orEnded(err error) error {
	if err == nil {
		return errStreamEnded
	}
	return err
}

func (c *foreignConn) watchSignals(ctx context.Context) error {
	request := connect.NewRequest(&macpv1.WatchSignalsRequest{})
	request.Header().Set("Authorization", "Bearer "+c.token)
	stream, err := connect.NewClient[macpv1.WatchSignalsRequest, macpv1.WatchSignalsResponse](c.client, c.address("WatchSignals"), clientOptions()...).
		CallServerStream(ctx, request)
	if err != nil {
		return fmt.Errorf("watch signals: %w", err)
	}
	defer stream.Close()
	for stream.Receive() {
		if !stream.Msg().GetSenderAuthenticated() {
			continue // the runtime does not know the sender
		}
		if err := c.signalled(ctx, stream.Msg().GetEnvelope()); err != nil {
			c.log.LogAttrs(ctx, slog.LevelInfo, "signal refused", slog.Any("err", err))
		}
	}
	return fmt.Errorf("watch signals: %w", orEnded(stream.Err()))
}

// The parameter copied means that the session has a copy.
func (c *foreignConn) follow(ctx context.Context, id string, copied bool) error {
	if !macpmode.ValidSessionID(id) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followed[id] {
		return nil
	}
	if len(c.followed) >= maxFollowed {
		c.log.LogAttrs(ctx, slog.LevelWarn, "session not followed", slog.String("session", id), slog.String("reason", "too many sessions"))
		return nil
	}
	c.followed[id] = true
	c.group.Go(fault.Func(func() error {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.followed, id)
		}()
		return newMirror(c, id).run(ctx, copied)
	}))
	return nil
}

package macp

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/federation/store/registry"
)

//go:embed reference.toml
var referenceFile string

// network is the label of this network, and the name of the link of the runtime.
const network = "macp"

// The profiles: the meaning of the commitment of a session opened by the gateway.
const (
	transfer = "transfer"  // the responsibility has moved; the work continues outside the session
	holdOpen = "hold-open" // the work is over; the session stays open until then
)

// Config is the table [macp] of the configuration.
type Config struct {
	Listen       string        `toml:"listen"` // host:port; "" disables the runtime
	TLS          bool          `toml:"tls"`
	Profile      string        `toml:"profile"`
	Participants []Participant `toml:"participants"`
	Runtimes     []Runtime     `toml:"runtimes"` // each opens its own link, see [Runtimes]
}

// Participant is one [[macp.participants]] table.
type Participant struct {
	Name      string `toml:"name"`
	DID       string `toml:"did"`
	TokenFile string `toml:"token_file"`
}

// DefaultConfig returns the defaults of the table.
func DefaultConfig() Config { return Config{Profile: transfer} }

const minTokenBytes = 16

// check joins all mistakes, each a [*bridge.KeyError].
func (c Config) check(p bridge.Ports) error {
	var mistakes []error
	mistake := func(key, why string) { mistakes = append(mistakes, &bridge.KeyError{Key: key, Why: why}) }
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		mistake("listen", `want "host:port"`)
	}
	if c.TLS && p.Certificate == nil {
		mistake("tls", "needs a certificate in [tls]")
	}
	if c.Profile != transfer && c.Profile != holdOpen {
		mistake("profile", fmt.Sprintf("want %q or %q; this runtime has no task mode: %q is a profile of a table [[macp.runtimes]]", transfer, holdOpen, taskFollowOn))
	}
	names, dids := map[string]bool{}, map[string]bool{}
	for i, each := range c.Participants {
		key := func(name string) string { return fmt.Sprintf("participants[%d].%s", i, name) }
		if strings.TrimSpace(each.Name) != each.Name || each.Name == "" || each.Name == "_runtime" || names[each.Name] {
			mistake(key("name"), "is required, once, and without space around it")
		}
		if _, err := federation.ParseDID(each.DID); err != nil || dids[each.DID] {
			mistake(key("did"), "want a DID, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa, of one participant")
		}
		if each.TokenFile == "" {
			mistake(key("token_file"), "is required")
		}
		names[each.Name], dids[each.DID] = true, true
	}
	return errors.Join(mistakes...)
}

// Network describes the runtime. Its link has its own listener.
func Network(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "macp", Reference: referenceFile,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := DefaultConfig()
			t.Decode(&cfg)
			if cfg.Listen == "" {
				return nil, bridge.ErrOff
			}
			if err := cfg.check(p); err != nil {
				return nil, err
			}
			participants, err := readParticipants(cfg.Participants, p.Secrets)
			if err != nil {
				return nil, err
			}
			return open(cfg, participants, p, deps), nil
		},
	}
}

type participant struct {
	name string
	did  federation.DID
}

type participants struct {
	all     []participant
	byToken map[[sha256.Size]byte]participant
}

func readParticipants(tables []Participant, secrets bridge.Secrets) (participants, error) {
	p := participants{byToken: map[[sha256.Size]byte]participant{}}
	var mistakes []error
	for i, table := range tables {
		token, err := secrets.Secret(table.TokenFile)
		digest := sha256.Sum256([]byte(token))
		switch _, taken := p.byToken[digest]; {
		case err != nil:
		case len(token) < minTokenBytes:
			err = fmt.Errorf("%s: want at least %d bytes", table.TokenFile, minTokenBytes)
		case taken:
			err = fmt.Errorf("%s: another participant has this token", table.TokenFile)
		}
		if err != nil {
			mistakes = append(mistakes, &bridge.KeyError{Key: fmt.Sprintf("participants[%d].token_file", i), Why: err.Error()})
			continue
		}
		one := participant{name: table.Name, did: federation.DID(table.DID)}
		p.all, p.byToken[digest] = append(p.all, one), one
	}
	return p, errors.Join(mistakes...)
}

func (p participants) named(name string) (participant, bool) {
	i := slices.IndexFunc(p.all, func(each participant) bool { return each.name == name })
	if i < 0 {
		return participant{}, false
	}
	return p.all[i], true
}

// of returns "" for any name that is neither a participant nor a DID.
func (p participants) of(name string) federation.DID {
	if known, ok := p.named(name); ok {
		return known.did
	}
	did, err := federation.ParseDID(name)
	if err != nil {
		return ""
	}
	return did
}

func open(cfg Config, p participants, ports bridge.Ports, deps Deps) *Link {
	log := ports.Log.With(slog.String("network", network), slog.String("link", network))
	l := &Link{cfg: cfg, participants: p, ports: ports, deps: deps, log: log, rates: map[string]rates{}}
	for _, one := range p.all {
		l.rates[one.name] = rates{
			starts:   rate.NewLimiter(rate.Every(time.Minute/startsPerMinute), startsPerMinute),
			messages: rate.NewLimiter(rate.Every(time.Minute/messagesPerMinute), messagesPerMinute),
		}
	}
	return l
}

// Bounds are the gateway's limits for sessions.
type Bounds struct {
	Finished  time.Duration // an ended session stays readable this long; 0 for ever
	ClockSkew time.Duration // tolerance for the time of a new session
}

// Deps are the dependencies of the network beside [bridge.Ports].
type Deps struct {
	Journals *journals.Journals
	Steps    registry.Bound
	Bounds   func() Bounds
	Version  string
}

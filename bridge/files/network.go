// Package files links directories in which agents exchange work as files. In voice directories,
// signed files move from folder to folder; in ".handoffs" directories, records change in place. The
// package also serves the hub of the voice protocol.
//
// The directory is the peer. A link watches it, and reads all of it at the start and every five
// seconds, because notifications may be lost. The action of a link on a file depends only on the
// file's place and content, and on the state of its handoff. A killed gateway therefore resumes by
// checking again.
//
// The gateway vouches for steps read from a directory, with the bytes of the file as evidence. See
// README.md for the guide.
package files

import (
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

//go:embed voice.reference.toml
var voiceReference string

//go:embed tasks.reference.toml
var tasksReference string

const network = "files"

// Deps are the dependencies of the links in addition to the ports of each link.
type Deps struct {
	Record       registry.Bound
	ChannelLinks func() []bridge.ChannelLink // they can carry an offer to a channel
	// Path resolves a configured path; nil for a check of the configuration.
	Path func(string) string
	Hub  *Hub // nil for none
}

func (d Deps) path(path string) string {
	if d.Path == nil || path == "" {
		return path
	}
	return filepath.Clean(d.Path(path))
}

// Voice describes voice directories.
func Voice(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "files.voice", Many: true, Reference: voiceReference,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			cfg := DefaultVoiceConfig()
			t.Decode(&cfg)
			dids, secrets, err := cfg.read(p.Secrets)
			if err != nil {
				return nil, err
			}
			cfg.Dir, cfg.StateDir = deps.path(cfg.Dir), deps.path(cfg.StateDir)
			return newVoiceLink(cfg, secrets, newBase(cfg.Name, dids, cfg.named(), deps, p)), nil
		},
	}
}

// Tasks describes ".handoffs" directories.
func Tasks(deps Deps) bridge.Network {
	return bridge.Network{
		Name: network, Table: "files.tasks", Many: true, Reference: tasksReference,
		Open: func(t bridge.Table, p bridge.Ports) (bridge.Link, error) {
			var cfg TasksConfig
			t.Decode(&cfg)
			dids, err := cfg.read()
			if err != nil {
				return nil, err
			}
			cfg.Dir = deps.path(cfg.Dir)
			return &TasksLink{base: newBase(cfg.Name, dids, cfg.Trusted, deps, p), cfg: cfg, dir: directory.Tasks{Path: cfg.Dir}}, nil
		},
	}
}

// The goroutine in Run owns the mutable fields.
type base struct {
	name   string
	agents map[string]federation.DID
	kept   func() map[federation.DID]string // names of agents by the did:keys kept for them
	deps   Deps
	ports  bridge.Ports
	log    *slog.Logger
	steps  stepbuilder.Builder
	calls  chan call

	// The pinned directory, which an operator can change. Only the goroutine in Run uses both fields.
	root     string
	folder   directory.Folder
	unpinned atomic.Bool
}

func newBase(name string, agents map[string]federation.DID, named []string, deps Deps, p bridge.Ports) *base {
	b := &base{
		name: name, agents: agents, deps: deps, ports: p, calls: make(chan call),
		log: p.Log.With(slog.String("network", network), slog.String("link", name)),
		steps: stepbuilder.Builder{
			Network: network, Link: name, Home: p.Home, Gateway: p.Gateway, Record: deps.Record, Signer: p.Signer, Evidence: p.Evidence,
			Bindings: p.Bindings, PublicURL: p.PublicURL, ChannelLinks: deps.ChannelLinks,
		},
	}
	b.kept = sync.OnceValue(func() map[federation.DID]string {
		kept := map[federation.DID]string{}
		for _, name := range named {
			if _, represented := b.agents[name]; !represented {
				kept[b.ports.Signer.Kept("person:"+b.nativePrefix()+federation.EscapeDID(name)).DID] = name
			}
		}
		return kept
	})
	return b
}

// Name implements [bridge.Link].
func (b *base) Name() string { return b.name }

// Network implements [bridge.Link].
func (*base) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to an agent of the directory needs no channel.
func (*base) ReadsInbox() {}

// VoiceConfig is one [[files.voice]] table.
type VoiceConfig struct {
	Name          string            `toml:"name"` // unique among all links
	Dir           string            `toml:"dir"`  // contains handoff, claimed, archive and rejected
	StateDir      string            `toml:"state_dir"`
	ResumeWindow  time.Duration     `toml:"resume_window"`   // validity of a bootstrap
	Agents        map[string]string `toml:"agents"`          // DIDs of the agents represented by Baton, by name
	HubTokenFiles map[string]string `toml:"hub_token_files"` // by agent name
	Pairs         []PairConfig      `toml:"pairs"`
}

func (c VoiceConfig) named() (names []string) {
	for _, p := range c.Pairs {
		names = append(names, p.Agents...)
	}
	return names
}

// PairConfig is one [[files.voice.pairs]] table: the secret shared by two agents.
type PairConfig struct {
	Agents       []string `toml:"agents"`
	SecretFile   string   `toml:"secret_file"`
	PreviousFile string   `toml:"previous_file"`
}

// TasksConfig is one [[files.tasks]] table.
type TasksConfig struct {
	Name    string            `toml:"name"` // unique among all links
	Dir     string            `toml:"dir"`
	Agents  map[string]string `toml:"agents"`  // DIDs by agent name
	Trusted []string          `toml:"trusted"` // agents that may create offers
}

// DefaultVoiceConfig returns the defaults of the table.
func DefaultVoiceConfig() VoiceConfig { return VoiceConfig{ResumeWindow: 5 * time.Minute} }

// minSecretBytes is the minimum length of a secret; devSecret is the publicly known secret of the
// reference implementation.
const (
	minSecretBytes = 16
	devSecret      = "dev-only-secret"
)

type mistakes []error

func (m *mistakes) add(key, format string, args ...any) {
	*m = append(*m, &bridge.KeyError{Key: key, Why: fmt.Sprintf(format, args...)})
}

func (m *mistakes) place(name, dir string, agents map[string]string) map[string]federation.DID {
	if name == "" {
		m.add("name", "is required")
	}
	if dir == "" {
		m.add("dir", "is required")
	}
	dids := map[string]federation.DID{}
	owner := map[federation.DID]string{}
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		did, err := federation.ParseDID(agents[agent])
		switch {
		case agent == "":
			m.add("agents", "an agent has no name")
		case err != nil:
			m.add("agents", "%s: %v", agent, err)
		case owner[did] != "":
			m.add("agents", "%s and %s have the same DID", owner[did], agent)
		}
		dids[agent], owner[did] = did, agent
	}
	return dids
}

func (m *mistakes) secret(key, file string, secrets bridge.Secrets) string {
	secret, err := secrets.Secret(file)
	switch {
	case err != nil:
		m.add(key, "%v", err)
	case secret == devSecret:
		m.add(key, "%s holds the secret of the reference implementation, which everybody knows", file)
	case len(secret) < minSecretBytes:
		m.add(key, "%s holds less than %d bytes", file, minSecretBytes)
	}
	return secret
}

type pair struct{ low, high string }

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

type voiceSecrets struct {
	pairs map[pair][]string // current secret first
	hub   map[string]string // tokens by agent name
}

// The error joins one [*bridge.KeyError] per mistake.
func (c VoiceConfig) read(secrets bridge.Secrets) (map[string]federation.DID, voiceSecrets, error) {
	var m mistakes
	dids := m.place(c.Name, c.Dir, c.Agents)
	if len(c.Agents) == 0 {
		m.add("agents", "is required: the agents that this gateway represents")
	}
	if c.ResumeWindow <= 0 {
		m.add("resume_window", "want more than 0s")
	}
	s := voiceSecrets{pairs: map[pair][]string{}, hub: map[string]string{}}
	for _, p := range c.Pairs {
		m.pair(s.pairs, p, secrets)
	}
	for _, agent := range slices.Sorted(maps.Keys(c.HubTokenFiles)) {
		token := m.secret("hub_token_files", c.HubTokenFiles[agent], secrets)
		for other, taken := range s.hub {
			if taken == token {
				m.add("hub_token_files", "%s and %s have the same token", other, agent)
			}
		}
		s.hub[agent] = token
	}
	return dids, s, errors.Join(m...)
}

func (m *mistakes) pair(into map[pair][]string, p PairConfig, secrets bridge.Secrets) {
	if len(p.Agents) != 2 || p.Agents[0] == p.Agents[1] || slices.Contains(p.Agents, "") {
		m.add("pairs.agents", "want the names of two agents, have [%s]", strings.Join(p.Agents, ", "))
		return
	}
	key := pairOf(p.Agents[0], p.Agents[1])
	if into[key] != nil {
		m.add("pairs.agents", "%s and %s are listed twice", key.low, key.high)
		return
	}
	into[key] = []string{m.secret("pairs.secret_file", p.SecretFile, secrets)}
	if p.PreviousFile != "" {
		into[key] = append(into[key], m.secret("pairs.previous_file", p.PreviousFile, secrets))
	}
}

func (c TasksConfig) read() (map[string]federation.DID, error) {
	var m mistakes
	dids := m.place(c.Name, c.Dir, c.Agents)
	return dids, errors.Join(m...)
}

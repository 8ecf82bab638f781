// Package files links directories in which agents hand work over as files: voice directories,
// whose files are signed and move from folder to folder, and ".handoffs" directories, whose
// records change in place. It also serves the hub of the voice protocol.
//
// The directory is the peer. A link watches it, and reads all of it again every five seconds
// and when it starts, so that nothing depends on a notification. What a link does about a file
// follows from two things alone: where the file is and what it says, and the state of its
// handoff. So a gateway that was killed at any moment goes on by looking again. The record keeps
// which handoff a file became.
//
// A step that is read from a directory is vouched for by the gateway, with the bytes of the file
// as evidence. README.md has the guide.
package files

import (
	_ "embed"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"baton/bridge"
	"baton/bridge/files/directory"
	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/federation/store/registry"
)

//go:embed voice.reference.toml
var voiceReference string

//go:embed tasks.reference.toml
var tasksReference string

// network is the label of both networks in metrics.
const network = "files"

// Deps is what the links need beside the ports of each link.
type Deps struct {
	Record  registry.Bound
	Placers func() []bridge.Placer // the links on which an offer can be written
	// Path returns where a path of the configuration is; nil for a check of the configuration.
	Path func(string) string
	Hub  *Hub // serves the hubs of the voice directories; nil for none
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
			return newTasksLink(cfg, newBase(cfg.Name, dids, cfg.Trusted, deps, p)), nil
		},
	}
}

// base is what both links share. The goroutine in Run owns what changes.
type base struct {
	name   string
	agents map[string]federation.DID        // of the configuration
	kept   func() map[federation.DID]string // see keptFor
	deps   Deps
	ports  bridge.Ports
	log    *slog.Logger
	steps  stepbuilder.Builder
	calls  chan call

	// The directory of all sessions, until an operator allows another one. Only the goroutine in
	// Run uses both fields.
	root     string
	folder   directory.Folder
	unpinned atomic.Bool // allow another directory in the next session
}

func newBase(name string, agents map[string]federation.DID, named []string, deps Deps, p bridge.Ports) *base {
	b := &base{
		name: name, agents: agents, deps: deps, ports: p, calls: make(chan call),
		log: p.Log.With(slog.String("network", network), slog.String("link", name)),
		steps: stepbuilder.Builder{
			Network: network, Home: p.Home, Gateway: p.Gateway, Record: deps.Record, Signer: p.Signer, Evidence: p.Evidence,
			Bindings: p.Bindings, PublicURL: p.PublicURL, Placers: deps.Placers,
		},
	}
	b.kept = sync.OnceValue(func() map[federation.DID]string { return b.keptFor(named) })
	return b
}

// Name implements [bridge.Link].
func (b *base) Name() string { return b.name }

// Network implements [bridge.Link].
func (*base) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to an agent of the directory needs no
// channel.
func (*base) ReadsInbox() {}

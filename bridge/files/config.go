package files

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// VoiceConfig is one [[files.voice]] table.
type VoiceConfig struct {
	Name          string            `toml:"name"` // unique among all links
	Dir           string            `toml:"dir"`  // handoff, claimed, archive and rejected are below it
	StateDir      string            `toml:"state_dir"`
	ResumeWindow  time.Duration     `toml:"resume_window"`   // for which a bootstrap is good
	Agents        map[string]string `toml:"agents"`          // DIDs of the agents that Baton represents, by name
	HubTokenFiles map[string]string `toml:"hub_token_files"` // by the name of the agent
	Pairs         []PairConfig      `toml:"pairs"`
}

// named returns the names of the agents that have a secret.
func (c VoiceConfig) named() (names []string) {
	for _, p := range c.Pairs {
		names = append(names, p.Agents...)
	}
	return names
}

// PairConfig is one [[files.voice.pairs]] table: the secret of two agents.
type PairConfig struct {
	Agents       []string `toml:"agents"`
	SecretFile   string   `toml:"secret_file"`
	PreviousFile string   `toml:"previous_file"`
}

// TasksConfig is one [[files.tasks]] table.
type TasksConfig struct {
	Name    string            `toml:"name"` // unique among all links
	Dir     string            `toml:"dir"`
	Agents  map[string]string `toml:"agents"`  // DIDs by the name of the agent
	Trusted []string          `toml:"trusted"` // agents that may create offers
}

// DefaultVoiceConfig returns the table as it is where the file says nothing.
func DefaultVoiceConfig() VoiceConfig { return VoiceConfig{ResumeWindow: 5 * time.Minute} }

// minSecretBytes is how long a secret is at least, and devSecret is one that every reader of the
// reference implementation knows.
const (
	minSecretBytes = 16
	devSecret      = "dev-only-secret"
)

// mistakes gathers what is wrong with a table.
type mistakes []error

func (m *mistakes) add(key, format string, args ...any) {
	*m = append(*m, &bridge.KeyError{Key: key, Why: fmt.Sprintf(format, args...)})
}

// place checks the keys that both tables have, and returns the DIDs of the agents.
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
			m.add("agents", "%s and %s have one DID", owner[did], agent)
		}
		dids[agent], owner[did] = did, agent
	}
	return dids
}

// secret reads a secret file.
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

// pair names two agents in either order.
type pair struct{ low, high string }

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// voiceSecrets are the secrets of a voice directory.
type voiceSecrets struct {
	pairs map[pair][]string // the current one first
	hub   map[string]string // tokens by the name of the agent
}

// read checks a table and returns what its files and DIDs say. Its error joins one
// [*bridge.KeyError] for each mistake.
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
				m.add("hub_token_files", "%s and %s have one token", other, agent)
			}
		}
		s.hub[agent] = token
	}
	return dids, s, errors.Join(m...)
}

// pair reads the secrets of one pair of agents.
func (m *mistakes) pair(into map[pair][]string, p PairConfig, secrets bridge.Secrets) {
	if len(p.Agents) != 2 || p.Agents[0] == p.Agents[1] || slices.Contains(p.Agents, "") {
		m.add("pairs.agents", "want the names of two agents, have [%s]", strings.Join(p.Agents, ", "))
		return
	}
	key := pairOf(p.Agents[0], p.Agents[1])
	if into[key] != nil {
		m.add("pairs.agents", "%s and %s are there twice", key.low, key.high)
		return
	}
	into[key] = []string{m.secret("pairs.secret_file", p.SecretFile, secrets)}
	if p.PreviousFile != "" {
		into[key] = append(into[key], m.secret("pairs.previous_file", p.PreviousFile, secrets))
	}
}

// read checks a table and returns its DIDs. Its error joins one [*bridge.KeyError] for each
// mistake.
func (c TasksConfig) read() (map[string]federation.DID, error) {
	var m mistakes
	dids := m.place(c.Name, c.Dir, c.Agents)
	return dids, errors.Join(m...)
}

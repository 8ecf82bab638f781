package files_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/files"
)

// voice and tasks are parsed tables.
type (
	voice files.VoiceConfig
	tasks files.TasksConfig
)

// Decode implements [bridge.Table].
func (v voice) Decode(into any) {
	if cfg, ok := into.(*files.VoiceConfig); ok {
		*cfg = files.VoiceConfig(v)
	}
}

// Decode implements [bridge.Table].
func (c tasks) Decode(into any) {
	if cfg, ok := into.(*files.TasksConfig); ok {
		*cfg = files.TasksConfig(c)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	t.Parallel()
	cfg := files.DefaultVoiceConfig()
	if diff, err := bridgetest.ReferenceDiff(files.Voice(files.Deps{}), &cfg); err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
	if diff, err := bridgetest.ReferenceDiff(files.Tasks(files.Deps{}), &files.TasksConfig{}); err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

// mistakes returns the keys that an error names.
func mistakes(err error) (keys []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			if mistake, ok := errors.AsType[*bridge.KeyError](each); ok {
				keys = append(keys, mistake.Key)
			}
		}
	}
	return keys
}

func TestOpenNamesEveryMistake(t *testing.T) {
	t.Parallel()
	ports := bridgetest.Ports(nil)
	ports.Secrets = bridgetest.Secrets{"good": "a secret of bob and alice", "short": "short", "dev": "dev-only-secret", "token": "the token of an agent"}
	good := voice{
		Name: "calls", Dir: "/srv/voice", ResumeWindow: 1, Agents: map[string]string{"bob": "did:plc:bob"},
		Pairs: []files.PairConfig{{Agents: []string{"bob", "alice"}, SecretFile: "good"}},
	}
	change := func(do func(*voice)) voice { c := good; do(&c); return c }
	pair := func(agents []string, current, previous string) voice {
		return change(func(c *voice) {
			c.Pairs = []files.PairConfig{{Agents: agents, SecretFile: current, PreviousFile: previous}}
		})
	}
	for name, tt := range map[string]struct {
		table bridge.Table
		want  []string
	}{
		"a good table":       {good, nil},
		"nothing":            {voice{ResumeWindow: 1}, []string{"name", "dir", "agents"}},
		"no DID":             {change(func(c *voice) { c.Agents = map[string]string{"bob": "bob"} }), []string{"agents"}},
		"one DID twice":      {change(func(c *voice) { c.Agents = map[string]string{"bob": "did:plc:bob", "sven": "did:plc:bob"} }), []string{"agents"}},
		"no window":          {change(func(c *voice) { c.ResumeWindow = 0 }), []string{"resume_window"}},
		"one agent":          {pair([]string{"bob"}, "good", ""), []string{"pairs.agents"}},
		"a pair with itself": {pair([]string{"bob", "bob"}, "good", ""), []string{"pairs.agents"}},
		"a missing secret":   {pair([]string{"bob", "alice"}, "none", ""), []string{"pairs.secret_file"}},
		"a short secret":     {pair([]string{"bob", "alice"}, "short", ""), []string{"pairs.secret_file"}},
		"the known secret":   {pair([]string{"bob", "alice"}, "dev", ""), []string{"pairs.secret_file"}},
		"the known one once": {pair([]string{"bob", "alice"}, "good", "dev"), []string{"pairs.previous_file"}},
		"a token twice":      {change(func(c *voice) { c.HubTokenFiles = map[string]string{"bob": "token", "alice": "token"} }), []string{"hub_token_files"}},
		"a pair twice": {change(func(c *voice) {
			c.Pairs = append(c.Pairs, files.PairConfig{Agents: []string{"alice", "bob"}, SecretFile: "good"})
		}), []string{"pairs.agents"}},
		"a good directory":    {tasks{Name: "research", Dir: "/srv/tasks"}, nil},
		"a directory without": {tasks{Agents: map[string]string{"a": "b"}}, []string{"name", "dir", "agents"}},
	} {
		network := files.Voice(files.Deps{})
		if _, isTasks := tt.table.(tasks); isTasks {
			network = files.Tasks(files.Deps{})
		}
		_, err := network.Open(tt.table, ports)
		if diff := cmp.Diff(tt.want, mistakes(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

package relay_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/baton-gateway/baton/federation/relay"
)

// noFiles is a folder of configurations without secret files.
type noFiles struct{ dir string }

func (f noFiles) Path(name string) string { return filepath.Join(f.dir, name) }

func (noFiles) Secret(string) (string, error) { return "", errors.New("there is none") }

func TestNATSTextChoosesOneServer(t *testing.T) {
	t.Parallel()
	servers := relay.ServerText{URLs: []string{"tls://nats.example:4222"}}
	for name, c := range map[string]struct {
		text    relay.NATSText
		hub     bool   // homes meet at a server outside this process
		ours    bool   // which the replicas of the home share
		mistake string // "" for none
	}{
		"nothing":               {},
		"replicas share it":     {text: relay.NATSText{Own: servers}, hub: true, ours: true},
		"a hub":                 {text: relay.NATSText{Own: servers, Hub: servers}, hub: true},
		"a listener and a hub":  {text: relay.NATSText{Listen: ":4222", Hub: servers}, hub: true, mistake: "relay.listen"},
		"no accounts to listen": {text: relay.NATSText{Listen: ":4222"}, mistake: "relay.listen"},
	} {
		var mistakes []string
		c.text.Home = "a.example"
		m := c.text.Parse(noFiles{t.TempDir()}, func(table, key, _ string) { mistakes = append(mistakes, table+"."+key) })
		if m.Hub.Named() != c.hub || m.Hub.Ours != c.ours {
			t.Errorf("%s: homes meet at %+v", name, m.Hub)
		}
		if (c.mistake == "") != (len(mistakes) == 0) || len(mistakes) > 0 && mistakes[0] != c.mistake {
			t.Errorf("%s: mistakes %v", name, mistakes)
		}
	}
}

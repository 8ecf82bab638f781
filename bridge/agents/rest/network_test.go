package rest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/bridgetest"
)

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	defaults := rest.DefaultConfig()
	diff, err := bridgetest.ReferenceDiff(rest.Network(rest.Deps{}), &defaults)
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

type table func(cfg *rest.Config)

// Decode implements [bridge.Table].
func (t table) Decode(into any) { t(into.(*rest.Config)) } //nolint:forcetypeassert // a network decodes its own table

func TestOpenReturnsMistakes(t *testing.T) {
	for name, test := range map[string]struct {
		change table
		key    string // of the one mistake; "" for none
	}{
		"the defaults":                {func(*rest.Config) {}, ""},
		"no wait at all":              {func(c *rest.Config) { c.MaxWait = 0 }, ""},
		"a poll that waits backwards": {func(c *rest.Config) { c.MaxWait = -time.Second }, "max_wait"},
		"a poll longer than proxies":  {func(c *rest.Config) { c.MaxWait = 56 * time.Second }, "max_wait"},
		"no streams":                  {func(c *rest.Config) { c.MaxStreams = 0 }, "max_streams"},
	} {
		_, err := rest.Network(rest.Deps{}).Open(test.change, bridgetest.Ports(nil))
		mistake, wrong := errors.AsType[*bridge.KeyError](err)
		if wrong != (test.key != "") || wrong && mistake.Key != test.key {
			t.Errorf("%s: %v", name, err)
		}
	}
	off := table(func(c *rest.Config) { c.Enabled = false })
	if _, err := rest.Network(rest.Deps{}).Open(off, bridgetest.Ports(nil)); !errors.Is(err, bridge.ErrOff) {
		t.Errorf("turned off: %v", err)
	}
}

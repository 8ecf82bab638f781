package federation_test

import (
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestHomeProfileIsParsedStrictly(t *testing.T) {
	t.Parallel()
	const good = `{"type":"home","v":1,"home":"b.test","did":"did:web:b.test","url":"https://b.test","versions":[1],` +
		`"limits":{"steps":256,"bytes":2097152,"hops":8,"clock_skew":60},"sent":"2026-11-23T12:00:00Z"}`
	p, err := federation.ParseHomeProfile([]byte(good))
	if err != nil || p.Home != "b.test" || p.Limits.Steps != 256 || !p.Speaks() {
		t.Errorf("got %+v, %v", p, err)
	}
	federationtest.NamesRead(t, good, func(text []byte) (any, error) { return federation.ParseHomeProfile(text) })
	for name, change := range map[string][2]string{
		"another type":      {`"type":"home"`, `"type":"move"`},
		"another version":   {`"v":1`, `"v":2`},
		"another DID":       {`did:web:b.test`, `did:web:c.test`},
		"no name of a home": {`"home":"b.test"`, `"home":"B_test"`},
		"an unknown member": {`"v":1`, `"v":1,"more":1`},
		"a member twice":    {`"v":1`, `"v":1,"v":1`},
		"no JSON":           {`{"type"`, `"type"`},
	} {
		if _, err := federation.ParseHomeProfile([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	p.Versions = []int{2}
	if p.Speaks() {
		t.Error("a home that speaks another version")
	}
}

package wire_test

import (
	"testing"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
)

func TestHandleOfADID(t *testing.T) {
	t.Parallel()
	for did, want := range map[federation.DID]string{
		"did:plc:ewvi7nxzyoun6zhxrhs64oiz":                         "plc_ewvi7nxzyoun6zhxrhs64oiz",
		"did:web:freeq.at:bots:factory":                            "web_l57chsxpyrjlo673eggecfxicj",
		"did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S": "key_2qn6q3pyoqytun4te5sn6spczo",
	} {
		if got := wire.Handle(did); got != want {
			t.Errorf("%s: %s, want %s", did, got, want)
		}
	}
	for first, want := range map[string]string{
		"factory": "factory_l57chsxpyr", "The Factory!": "the_factory_l57chsxpyr", "[]": "did_l57chsxpyr",
		"a_name_that_is_far_too_long_to_fit": "a_name_that_is_far_l57chsxpyr",
	} {
		if got := wire.Alias("did:web:freeq.at:bots:factory", first); got != want {
			t.Errorf("%q: %s, want %s", first, got, want)
		}
	}
}

package client_test

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// recordNames are the names that a record binds.
type recordNames struct {
	bridge.Bindings

	record *registry.Record
}

// Bound implements [bridge.Bindings].
func (n recordNames) Bound(ctx context.Context, network, name string) (federation.BoundName, error) {
	return n.record.BoundName(ctx, network, name)
}

func TestRegisterCreatesAnAccountOnce(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.AccountRegistration = true
	h := start(t, cfg, func(d *client.Deps) {
		d.Signer = bridgetest.Signer(bridgetest.SeededKey)
		d.Bindings = recordNames{record: d.Record}
		d.Enrolments = credential.NewAddresses(func() int { return 1 }, time.Hour)
		d.Meet = func(context.Context, federation.DID, time.Time) error { return nil }
	})
	peers := play(t, h, `
		early > NICK early
		early > REGISTER * * a_good_password
		early < *REGISTER COMPLETE_CONNECTION_REQUIRED*
		Ann joins draft/account-registration
		Ann > REGISTER other * a_good_password
		Ann < :gw.example FAIL REGISTER ACCOUNT_NAME_MUST_BE_NICK other :*
		Ann > REGISTER * * short
		Ann < :gw.example FAIL REGISTER UNACCEPTABLE_PASSWORD ann :*
		Ann > REGISTER * * a_good_password
		Ann < :gw.example REGISTER SUCCESS ann :*
		Ann < *900 Ann Ann!*@* did:key:* :You are now logged in as did:key:*
		Ann > REGISTER * * a_good_password
		Ann < :gw.example FAIL REGISTER ALREADY_AUTHENTICATED *`)
	peers["Ann"].say(t, "QUIT")
	peers["Ann"].until(t, "ERROR *")
	play(t, h, `
		ann joins draft/account-registration
		ann > REGISTER * * another_password
		ann < :gw.example FAIL REGISTER ACCOUNT_EXISTS ann :*
		ann > CAP REQ sasl
		ann < *ACK*
		ann > AUTHENTICATE PLAIN
		ann < AUTHENTICATE +
		ann > AUTHENTICATE `+base64.StdEncoding.EncodeToString([]byte("\x00ANN\x00a_good_password"))+`
		ann < *900 ann ann!*@* did:key:* :*
		ann < *903*
		bob joins draft/account-registration
		bob > REGISTER * * second_of_this_hour
		bob < :gw.example FAIL REGISTER TEMPORARILY_UNAVAILABLE bob :*`)
	kept, err := h.record.BoundName(t.Context(), "client", "ann")
	if err != nil || !kept.Vouch || kept.DID.Method() != "key" {
		t.Errorf("the account is %+v, %v", kept, err)
	}
}

func TestRegisterNeedsTheOperatorsPermission(t *testing.T) {
	t.Parallel()
	play(t, start(t, testConfig()), `
		ann > CAP REQ draft/account-registration
		ann < *NAK :draft/account-registration
		ann > CAP END
		ann joins
		ann > REGISTER * * a_good_password
		ann < :gw.example 421 ann REGISTER :Unknown command`)
}

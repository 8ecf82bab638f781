package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runLoginCodes(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a pairing code is spent once", s.testPairing)
	t.Run("a DID has eight pairing codes", s.testPairings)
	t.Run("a pairing code ends with the sessions of its DID", s.testPairingEnds)
	t.Run("a device gets one decision", s.testDevice)
	t.Run("devices have limits", s.testDeviceLimits)
}

func pairing(t *testing.T, record *registry.Record, text string, did federation.DID, made int, change ...func(*federation.LoginCode)) federation.LoginCode {
	t.Helper()
	c := federation.LoginCode{
		Digest: federation.DigestLoginCode(federation.PairingCode, text), Kind: federation.PairingCode, DID: did, Key: "k", Bound: true,
		Expires: federationtest.At(made + 100),
	}
	for _, each := range change {
		each(&c)
	}
	if err := record.AddLoginCode(t.Context(), c, federationtest.At(made)); err != nil {
		t.Fatal(err)
	}
	return c
}

// spend spends a pairing code and returns the error.
func spend(t *testing.T, record *registry.Record, text string, now int) error {
	t.Helper()
	_, err := record.SpendPairing(t.Context(), federation.DigestLoginCode(federation.PairingCode, text), federationtest.At(now))
	return err
}

func (s suite) testPairing(t *testing.T) {
	record := s.open(t)
	want := pairing(t, record, "K7QF-2MXD", ada, 1)
	pairing(t, record, "AAAA-AAAA", bob, 1)
	if err := spend(t, record, "K7QF-2MXE", 2); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("another code: %v", err)
	}
	got, err := record.SpendPairing(t.Context(), federation.DigestLoginCode(federation.PairingCode, " k7qf2mxd"), federationtest.At(2))
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("SpendPairing: %v (-want +got):\n%s", err, d)
	}
	if err := spend(t, record, "K7QF-2MXD", 2); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	if err := spend(t, record, "AAAA-AAAA", 101); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
}

func (s suite) testPairings(t *testing.T) {
	record := s.open(t)
	pairing(t, record, "of bob", bob, 1)
	for i := range federation.MaxPairingCodes + 2 {
		pairing(t, record, fmt.Sprint("code ", i), ada, 1+i)
	}
	for i := range federation.MaxPairingCodes + 2 {
		if err := spend(t, record, fmt.Sprint("code ", i), 20); (err == nil) != (i >= 2) {
			t.Errorf("code %d: %v", i, err)
		}
	}
	if err := spend(t, record, "of bob", 20); err != nil {
		t.Errorf("the code of bob: %v", err)
	}
}

func (s suite) testPairingEnds(t *testing.T) {
	record := s.open(t)
	unbound := func(c *federation.LoginCode) { c.Bound, c.Key = false, "other" }
	for name, tt := range map[string]struct {
		end  func() error
		ends []string
	}{
		"unbound sessions": {func() error {
			_, err := record.EndSessions(t.Context(), []string{string(ada)}, "", true, federationtest.At(2))
			return err
		}, []string{"unbound"}},
		"all sessions": {func() error {
			_, err := record.EndSessions(t.Context(), []string{string(ada)}, "", false, federationtest.At(2))
			return err
		}, []string{"unbound", "bound"}},
		"a key": {func() error { return record.Revoke(t.Context(), ada, "k", federationtest.At(2)) }, []string{"bound"}},
	} {
		pairing(t, record, "unbound", ada, 1, unbound)
		pairing(t, record, "bound", ada, 1)
		pairing(t, record, "of bob", bob, 1)
		if err := tt.end(); err != nil {
			t.Fatal(err)
		}
		var ended []string
		for _, code := range []string{"unbound", "bound", "of bob"} {
			if err := spend(t, record, code, 3); err != nil {
				ended = append(ended, code)
			}
		}
		if d := diff(tt.ends, ended); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func device(t *testing.T, record *registry.Record, text, address string) (federation.LoginCode, error) {
	t.Helper()
	c := federation.LoginCode{
		Digest: federation.DigestLoginCode(federation.DeviceCode, text), Kind: federation.DeviceCode, Address: address,
		Client: "https://host.example/client", ClientName: "Host", Expires: federationtest.At(100),
	}
	return c, record.AddLoginCode(t.Context(), c, federationtest.At(1))
}

func (s suite) testDevice(t *testing.T) {
	record := s.open(t)
	interval := 5 * time.Second
	asked, err := device(t, record, "AAAA-BBBB", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	poll := func(now int) (federation.LoginCode, bool, error) {
		return record.PollDevice(t.Context(), asked.Digest, federationtest.At(now), interval)
	}
	if err := spend(t, record, "AAAA-BBBB", 2); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("as a pairing code: %v", err)
	}
	if c, early, err := poll(2); c.DID != "" || early || err != nil {
		t.Errorf("a first poll: %+v, %v, %v", c, early, err)
	}
	if _, early, err := poll(3); !early || err != nil {
		t.Errorf("a poll a second later: %v, %v", early, err)
	}
	found, err := record.Device(t.Context(), asked.Digest, federationtest.At(4))
	if d := diff(asked, found); d != "" || err != nil {
		t.Errorf("Device: %v (-want +got):\n%s", err, d)
	}
	decided := asked
	decided.DID, decided.Key, decided.Bound = ada, "k", true
	if err := record.DecideDevice(t.Context(), decided, federationtest.At(5)); err != nil {
		t.Errorf("DecideDevice: %v", err)
	}
	denied := asked
	denied.Denied = true
	if err := record.DecideDevice(t.Context(), denied, federationtest.At(5)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("DecideDevice again: %v", err)
	}
	if _, err := record.Device(t.Context(), asked.Digest, federationtest.At(5)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Device that was decided: %v", err)
	}
	got, _, err := poll(20)
	if d := diff(decided, got); d != "" || err != nil {
		t.Errorf("PollDevice: %v (-want +got):\n%s", err, d)
	}
	if got, early, err := poll(21); got.DID != ada || early || err != nil { // the first response was lost
		t.Errorf("a poll after the answer: %+v, %v, %v", got, early, err)
	}
	session := federation.Session{ID: "1", Participant: string(ada), Created: federationtest.At(30), Expires: federationtest.At(90), Ends: federationtest.At(30)}
	if err := record.RedeemLogin(t.Context(), asked.Digest, session); !errors.Is(err, federation.ErrSessionEnded) {
		t.Errorf("RedeemLogin for a session that has ended: %v", err)
	}
	session.Ends = time.Time{}
	if err := record.RedeemLogin(t.Context(), asked.Digest, session); err != nil { // the first one used nothing up
		t.Errorf("RedeemLogin: %v", err)
	}
	session.ID = "2"
	if err := record.RedeemLogin(t.Context(), asked.Digest, session); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("RedeemLogin again: %v", err)
	}
	if _, _, err := poll(31); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("a poll after the login: %v", err)
	}
}

func (s suite) testDeviceLimits(t *testing.T) {
	record := s.open(t)
	added := 0
	for i := range 2 * federation.MaxDevicesOfOrigin {
		if _, err := device(t, record, fmt.Sprint("code ", i), "192.0.2.1"); err == nil {
			added++
		} else if !errors.Is(err, federation.ErrTooManyCodes) {
			t.Fatal(err)
		}
	}
	if added != federation.MaxDevicesOfOrigin {
		t.Errorf("%d devices of one address wait", added)
	}
	if _, err := device(t, record, "of another", "192.0.2.2"); err != nil {
		t.Errorf("a device of another address: %v", err)
	}
	pairing(t, record, "later", ada, 101) // which deletes the expired ones
	if _, err := device(t, record, "next", "192.0.2.1"); err != nil {
		t.Errorf("once they have expired: %v", err)
	}
}

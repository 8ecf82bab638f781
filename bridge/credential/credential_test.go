package credential_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
)

// now is any time.
func now() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestChallengeIsValidOnceForOneSubjectAndPurpose(t *testing.T) {
	t.Parallel()
	c := credential.NewChallenges(secret(1), "rest")
	challenge, ends := c.Issue("did:key:eliza", now())
	if ends != now().Add(5*time.Minute) {
		t.Errorf("it ends at %s", ends)
	}
	again, _ := c.Issue("did:key:eliza", now())
	for name, got := range map[string]error{
		"another subject": c.Spend(challenge, "did:key:mallory", now()),
		"another purpose": credential.NewChallenges(secret(1), "airc").Spend(challenge, "did:key:eliza", now()),
		"another key":     credential.NewChallenges(secret(2), "rest").Spend(challenge, "did:key:eliza", now()),
		"a byte too many": c.Spend(challenge+"AA", "did:key:eliza", now()),
		"no base64url":    c.Spend("?"+challenge[1:], "did:key:eliza", now()),
		"nothing":         c.Spend("", "did:key:eliza", now()),
	} {
		if !errors.Is(got, credential.ErrChallenge) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if err := c.Spend(again, "did:key:eliza", ends.Add(time.Second)); !errors.Is(err, credential.ErrChallengeExpired) {
		t.Errorf("after its end: %v", err)
	}
	if err := c.Spend(challenge, "did:key:eliza", ends); err != nil {
		t.Errorf("at its end: %v", err)
	}
	if err := c.Spend(challenge, "did:key:eliza", now()); !errors.Is(err, credential.ErrChallenge) {
		t.Errorf("a second time: %v", err)
	}
	c.Restore(challenge)
	if err := c.Spend(challenge, "did:key:eliza", now()); err != nil {
		t.Errorf("restored: %v", err)
	}
	restarted := credential.NewChallenges(secret(1), "rest")
	if err := restarted.Spend(again, "did:key:eliza", now()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestChallengesForgetExpiredOnes(t *testing.T) {
	t.Parallel()
	c := credential.NewChallenges(secret(1), "rest")
	spend := func(at time.Time) error {
		challenge, _ := c.Issue("x", at)
		return c.Spend(challenge, "x", at)
	}
	for range 16384 {
		if err := spend(now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, away := errors.AsType[*federation.UnavailableError](spend(now())); !away {
		t.Error("one more is taken while all may come again")
	}
	if err := spend(now().Add(6 * time.Minute)); err != nil {
		t.Errorf("once they have ended: %v", err)
	}
}

// tokens writes tokens for one audience a use.
func tokens(key []byte, issuer string) *credential.Tokens {
	return credential.NewTokens(key, issuer, func(u credential.Use) string { return issuer + "/" + string(u) })
}

func TestTokenIsValidForItsUseAndTime(t *testing.T) {
	t.Parallel()
	ours := tokens(secret(1), "gw.example")
	session := credential.NewSession(federation.Session{Participant: "did:key:eliza"}, now())
	pair, err := ours.Pair(session, now())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := ours.Read(pair.Access, credential.Access, now().Add(14*time.Minute))
	if err != nil || claims.Subject != "did:key:eliza" || claims.Session != session.ID || !pair.Ends.Equal(now().Add(15*time.Minute)) {
		t.Errorf("the access token says %+v, %v", claims, err)
	}
	claims, err = ours.Read(pair.Refresh, credential.Refresh, now().Add(23*time.Hour))
	if err != nil || claims.Session != session.ID || claims.Generation != 1 {
		t.Errorf("the refresh token says %+v, %v", claims, err)
	}
	read := func(by *credential.Tokens, text string, use credential.Use, at time.Time) error {
		_, err := by.Read(text, use, at)
		return err
	}
	head, _, _ := strings.Cut(pair.Access, ".")
	unsigned := "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0" + strings.TrimPrefix(pair.Access, head)
	for _, tt := range []struct {
		name string
		got  error
		want error
	}{
		{"access after its end", read(ours, pair.Access, credential.Access, pair.Ends.Add(time.Second)), credential.ErrTokenExpired},
		{"refresh for access", read(ours, pair.Refresh, credential.Access, now()), credential.ErrToken},
		{"access for refresh", read(ours, pair.Access, credential.Refresh, now()), credential.ErrToken},
		{"another key", read(tokens(secret(2), "gw.example"), pair.Access, credential.Access, now()), credential.ErrToken},
		{"another gateway", read(tokens(secret(1), "elsewhere.example"), pair.Access, credential.Access, now()), credential.ErrToken},
		{"no signature", read(ours, unsigned, credential.Access, now()), credential.ErrToken},
		{"no token", read(ours, "x", credential.Access, now()), credential.ErrToken},
	} {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if other := credential.NewSession(federation.Session{Participant: "did:key:eliza"}, now()); other.ID == session.ID || len(other.ID) < 20 {
		t.Errorf("sessions %q and %q", session.ID, other.ID)
	}
}

func TestBearerIsReadFromARequest(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "": "none", "Bearer": "none", "Bearer ": "none", "Basic abc": "none",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		got, err := credential.Bearer(r)
		if errors.Is(err, credential.ErrNoToken) {
			got = "none"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestAddressesCountEachSpelling(t *testing.T) {
	t.Parallel()
	limit := 2
	a := credential.NewAddresses(func() int { return limit }, time.Minute)
	take := func(from string, at time.Time) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = from
		return fmt.Sprint(from, " ", a.Take(credential.AddressOf(r), at))
	}
	var got []string
	for _, from := range []string{
		"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3", "192.0.2.2:1", // one address, then another
		"[2001:db8::1]:1", "[2001:db8::2%eth0]:1", "[2001:db8::3]:1", "[2001:db8:0:1::1]:1", // one subnet, then another
		"", "@", "x", // unknown origins are not counted
	} {
		got = append(got, take(from, now()))
	}
	got = append(got, take("192.0.2.1:1", now().Add(30*time.Second)), take("192.0.2.1:1", now().Add(30*time.Second)))
	if diff := cmp.Diff([]string{
		"192.0.2.1:1 true", "192.0.2.1:2 true", "[::ffff:192.0.2.1]:3 false", "192.0.2.2:1 true",
		"[2001:db8::1]:1 true", "[2001:db8::2%eth0]:1 true", "[2001:db8::3]:1 false", "[2001:db8:0:1::1]:1 true",
		" true", "@ true", "x true", "192.0.2.1:1 true", "192.0.2.1:1 false",
	}, got); diff != "" {
		t.Error(diff)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.RemoteAddr = "192.0.2.2:9"
	if left, want := a.Left(credential.AddressOf(r), now()), (bridge.Allowance{Limit: 2, Left: 1, Full: now().Add(30 * time.Second)}); left != want {
		t.Errorf("left %+v, want %+v", left, want)
	}
	limit = 3 // changed while it runs
	if left, want := a.Left(credential.AddressOf(r), now()), (bridge.Allowance{Limit: 3, Left: 3, Full: now()}); left != want {
		t.Errorf("with another limit %+v, want %+v", left, want)
	}
	limit = 0
	for range 5 {
		if !a.Take(credential.AddressOf(r), now()) {
			t.Error("without a limit one is refused")
		}
	}
}

func TestAddressesSurviveAFloodOfFreshOnes(t *testing.T) {
	t.Parallel()
	a := credential.NewAddresses(func() int { return 2 }, time.Hour)
	heavy := bridge.SubnetOf("192.0.2.1")
	for a.Take(heavy, now()) {
	}
	fresh := netip.MustParseAddr("2001:db8::")
	for range 40_000 { // more than are counted at once
		a.Take(bridge.Subnet(fresh), now())
		next := fresh.As16()
		binary.BigEndian.PutUint64(next[:], binary.BigEndian.Uint64(next[:])+1)
		fresh = netip.AddrFrom16(next)
	}
	if a.Take(heavy, now()) {
		t.Error("the flood gave an address its requests back")
	}
	if wait := a.Wait(heavy, now()); wait != 30*time.Minute {
		t.Errorf("it waits %s, want half an hour", wait)
	}
}

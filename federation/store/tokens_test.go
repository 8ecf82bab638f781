package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runTokens(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("a token is good until it is over or revoked", s.testToken)
	t.Run("tokens are read by name, a page at a time", s.testTokens)
	t.Run("a name is free again when its token is over", s.testTokenName)
}

func token(name string, made int) federation.OperatorToken {
	return federation.OperatorToken{
		Name: name, Scope: federation.OperateScope, Digest: federation.DigestToken(name), Created: federationtest.At(made), Expires: federationtest.At(made + 10),
	}
}

func addTokens(t *testing.T, record *registry.Record, tokens ...federation.OperatorToken) {
	t.Helper()
	for _, each := range tokens {
		if err := record.AddToken(t.Context(), each); err != nil {
			t.Fatalf("AddToken(%s): %v", each.Name, err)
		}
	}
}

func (s suite) testToken(t *testing.T) {
	record, ctx := s.open(t), t.Context()
	ann := token("ann", 1)
	addTokens(t, record, ann, token("ben", 1))
	got, err := record.Token(ctx, ann.Digest, federationtest.At(10))
	if d := diff(ann, got); d != "" || err != nil {
		t.Errorf("Token: %v (-want +got):\n%s", err, d)
	}
	if _, err := record.Token(ctx, ann.Digest, federationtest.At(11)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Token that is over: %v, want ErrNotFound", err)
	}
	if _, err := record.Token(ctx, federation.DigestToken("cleo"), federationtest.At(2)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Token that nobody made: %v, want ErrNotFound", err)
	}
	if err := record.RevokeToken(ctx, "ann"); err != nil {
		t.Errorf("RevokeToken: %v", err)
	}
	if _, err := record.Token(ctx, ann.Digest, federationtest.At(2)); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("Token that is revoked: %v, want ErrNotFound", err)
	}
	if err := record.RevokeToken(ctx, "ann"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("RevokeToken again: %v, want ErrNotFound", err)
	}
	if _, err := record.Token(ctx, federation.DigestToken("ben"), federationtest.At(2)); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

func (s suite) testTokens(t *testing.T) {
	record := s.open(t)
	want := []federation.OperatorToken{token("Zoe", 1), token("ann", 1), token("ben", 1)}
	addTokens(t, record, want[1], want[2], want[0])
	all, err := record.Tokens(t.Context(), "", 10)
	if d := diff(want, all); d != "" || err != nil {
		t.Errorf("Tokens: %v (-want +got):\n%s", err, d)
	}
	page, err := record.Tokens(t.Context(), "Zoe", 1)
	if d := diff(want[1:2], page); d != "" || err != nil {
		t.Errorf("Tokens after the first: %v (-want +got):\n%s", err, d)
	}
}

func (s suite) testTokenName(t *testing.T) {
	record := s.open(t)
	first, again := token("ann", 1), token("ann", 11)
	again.Digest = federation.DigestToken("another")
	addTokens(t, record, first, token("old", 1))
	if err := record.AddToken(t.Context(), token("ann", 10)); !errors.Is(err, federation.ErrTaken) {
		t.Errorf("AddToken of a name that is in use: %v, want ErrTaken", err)
	}
	addTokens(t, record, again)
	left, err := record.Tokens(t.Context(), "", 10)
	if d := diff([]federation.OperatorToken{again}, left); d != "" || err != nil {
		t.Errorf("Tokens: %v (-want +got):\n%s", err, d)
	}
}

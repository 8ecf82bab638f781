package participant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/credential"
	"baton/federation"
)

// Path is the path of REST, which the tokens of participants name as their audience.
const Path = "/api/v1/"

// newTokens returns the tokens of participants.
func newTokens(key []byte, home federation.HomeID) *credential.Tokens {
	return credential.NewTokens(key, string(home), func(credential.Use) string { return string(home) + Path })
}

// Tokens writes and reads the tokens of participants.
func (a *Access) Tokens() *credential.Tokens { return a.tokens }

// Authenticate returns the caller whose token a request carries: one of this gateway, of the
// AIRC registry, or of an operator. It refuses a DID that an operator blocked. It blocks on the
// record.
func (a *Access) Authenticate(r *http.Request, now time.Time) (Caller, error) {
	who, err := a.bearer(r, now)
	if err == nil && who.DID != "" {
		err = a.CheckBlocked(r.Context(), who.DID)
	}
	if err != nil {
		return Caller{}, err
	}
	return who, nil
}

// CheckBlocked returns a refusal for a DID that an operator blocked.
func (a *Access) CheckBlocked(ctx context.Context, did federation.DID) error {
	return a.deps.CheckBlocked(ctx, federation.Source{Network: a.network, DIDs: []federation.DID{did}})
}

// CheckAddress returns a refusal for a request from an address that an operator blocked.
func (a *Access) CheckAddress(r *http.Request) error {
	return a.deps.CheckBlocked(r.Context(), federation.Source{Network: a.network, Address: credential.AddressOf(r)})
}

// TakeLogin counts one login of the address of a request, and returns a refusal for one too many.
// It writes into the header of the answer how many are left.
func (a *Access) TakeLogin(w http.ResponseWriter, r *http.Request, now time.Time) error {
	from := credential.AddressOf(r)
	taken, has := a.deps.Logins.Take(from, now), a.deps.Logins.Left(from, now)
	has.WriteHeader(w.Header())
	if !taken {
		return TooMany(has)
	}
	return nil
}

func (a *Access) bearer(r *http.Request, now time.Time) (Caller, error) {
	text, err := credential.Bearer(r)
	if err != nil {
		return Caller{}, err
	}
	claims, err := a.tokens.Read(text, credential.Access, now)
	switch {
	case err == nil && claims.Session == "": // issued before tokens named a session: the client refreshes it
		return Caller{}, credential.ErrTokenExpired
	case err == nil:
		session, err := credential.SessionOf(r.Context(), a.deps.Sessions, claims, now)
		return Caller{DID: federation.DID(claims.Subject), Session: session}, err
	case errors.Is(err, credential.ErrTokenExpired):
		return Caller{}, err
	}
	who, ok, err := a.deps.Callers.Authenticate(r)
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("look up agent: %w", err)
	case ok:
		return Caller{DID: who.DID, Session: who.Session}, nil
	}
	operator, err := a.deps.Callers.Operator(r)
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("look up operator: %w", err)
	case !operator:
		return Caller{}, credential.ErrToken
	}
	return Caller{Operator: true}, nil
}

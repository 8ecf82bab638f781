package peering

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// This is short, because a home behind NAT must time out before the hub is tried.
const httpsWait = 2 * time.Second

const httpsTimeout = 10 * time.Second

// Documents of homes and agents have about 6 KiB.
const maxDocumentBytes = 64 << 10

// Linked is another home whose documents are read. The functions block on the network.
type Linked struct {
	Home federation.HomeID
	URL  string // without a path; empty if reached only through the hub
	Key  string // ID of the configured key, or ""
	// Get reads an address of the home by HTTPS, with the errors of [identity.Fetcher].
	Get func(ctx context.Context, address string) ([]byte, error)
	// Lookup reads a document through the hub, or is nil without a hub. The error wraps
	// [federation.ErrNotFound] if the home has no such document, and [*federation.UnavailableError]
	// if it does not answer.
	Lookup func(ctx context.Context, path federation.URLPath) (Answer, error)
	// Vouches reports whether the hub vouches for the sender of a response, because each home has
	// its own account.
	Vouches func(ctx context.Context) (bool, error)
}

// Answer is a document from a hub, in a response signed by the home.
type Answer struct {
	Document  []byte
	Signed    []byte // whole response
	Signature string
}

// KeyHistories returns the recorded keys of a DID. It blocks only on the record.
type KeyHistories interface {
	History(ctx context.Context, did federation.DID) (federation.KeyHistory, error)
}

// Documents reads the published DID documents of other homes and of their agents, by HTTPS or else
// through the hub. Its methods may be called concurrently.
//
// Over HTTPS the certificate proves the home. Through a hub, the home signs the response, and
// [Documents] trusts these keys:
//
//   - the key in the configuration, if any;
//   - a key on record for the home;
//   - for a home without a key on record, or without an address, the key that the document names,
//     at a hub that gives each home an account.
type Documents struct {
	Linked func(home federation.HomeID) (Linked, bool)
	// Keys verifies responses with documents of agents.
	Keys      func() federation.KeySource
	Histories KeyHistories
	Log       *slog.Logger
}

// Read returns the document at a path of a home, and whether there is such a home. The error wraps
// [federation.ErrNotFound] if the home has no such document, and [*federation.UnavailableError] if
// it cannot be read now.
func (d *Documents) Read(ctx context.Context, name string, path federation.URLPath) (body []byte, known bool, err error) {
	home, ok := d.Linked(federation.HomeID(name))
	if !ok {
		return nil, false, nil
	}
	body, err = d.byHTTPS(ctx, home, path)
	if !away(err) || home.Lookup == nil {
		return body, true, err
	}
	body, hubErr := d.byHub(ctx, home, path)
	if away(hubErr) && home.URL != "" {
		hubErr = unavailable(home.Home, fmt.Errorf("%w; by HTTPS: %w", hubErr, err))
	}
	return body, true, hubErr
}

func away(err error) bool {
	_, is := errors.AsType[*federation.UnavailableError](err)
	return is
}

func unavailable(home federation.HomeID, err error) error {
	return &federation.UnavailableError{What: "home " + string(home), Err: err}
}

func (d *Documents) byHTTPS(ctx context.Context, home Linked, path federation.URLPath) ([]byte, error) {
	if home.URL == "" {
		return nil, unavailable(home.Home, errors.New("it has no url"))
	}
	timeout := httpsTimeout
	if home.Lookup != nil {
		timeout = httpsWait
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address, err := federation.JoinURL(home.URL, path, nil)
	if err != nil {
		return nil, err
	}
	body, err := home.Get(ctx, address)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return nil, fmt.Errorf("read %s: %w", address, federation.ErrNotFound)
	case len(body) > maxDocumentBytes:
		return nil, fmt.Errorf("read %s: %w", address, identity.ErrTooLarge)
	}
	return body, err
}

func (d *Documents) byHub(ctx context.Context, home Linked, path federation.URLPath) ([]byte, error) {
	answer, err := home.Lookup(ctx, path)
	if err != nil {
		return nil, err
	}
	if path == documentPath {
		err = d.verifyHome(ctx, home, answer)
	} else {
		_, err = signing.VerifyHome(ctx, d.Keys(), home.Home, answer.Signed, answer.Signature, time.Now())
	}
	if err != nil {
		return nil, unavailable(home.Home, fmt.Errorf("its answer through the hub: %w", err))
	}
	return answer.Document, nil
}

func (d *Documents) verifyHome(ctx context.Context, home Linked, answer Answer) error {
	now, did := time.Now(), home.Home.DID()
	listed, err := identity.ParseDocument(did, answer.Document)
	if err != nil {
		return err
	}
	signer := slices.IndexFunc(listed, func(key ed25519.PublicKey) bool {
		_, err := signing.VerifyHome(ctx, documentKeys{key}, home.Home, answer.Signed, answer.Signature, now)
		return err == nil
	})
	if signer < 0 {
		return errors.New("no key of the document signed it")
	}
	id := federation.KeyID(listed[signer])
	if home.Key != "" {
		if id != home.Key {
			return fmt.Errorf("key %s signed it, and [[peers]] key is %s: compare it with its operator", id, home.Key)
		}
		return nil
	}
	history, err := d.Histories.History(ctx, did)
	if err != nil {
		return fmt.Errorf("read keys of %s: %w", did, err)
	}
	var ids []string
	for _, w := range history {
		if w.Origin == federation.DocumentKey && w.Good(now) {
			ids = append(ids, w.KeyID)
		}
	}
	return d.believe(ctx, home, id, ids)
}

// believe returns an error unless the key is accepted as a key of the home, given the keys on
// record.
func (d *Documents) believe(ctx context.Context, home Linked, key string, known []string) error {
	if slices.Contains(known, key) {
		return nil
	}
	if len(known) > 0 && home.URL != "" {
		return fmt.Errorf("key %s signed it, but %s is on record: make %s reachable, or set key in [[peers]] to the key from its operator", key, known[0], home.URL)
	}
	vouches, err := home.Vouches(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("ask the hub for its accounts: %w", err)
	case !vouches:
		return fmt.Errorf("key %s signed it, but the hub has no accounts that vouch for it: set key in [[peers]] to the key from its operator", key)
	case len(known) > 0:
		d.Log.LogAttrs(ctx, slog.LevelWarn, "home has another key according to the hub; compare it with its operator",
			slog.String("peer", string(home.Home)), slog.String("key", key), slog.String("before", known[0]))
	default:
		d.Log.LogAttrs(ctx, slog.LevelInfo, "key of a home accepted from the hub; compare it with its operator",
			slog.String("peer", string(home.Home)), slog.String("key", key))
	}
	return nil
}

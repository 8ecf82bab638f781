package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

const keysFolder = "keys"

// KeyFolder returns the key folder of a configuration.
func KeyFolder(file *configs.File) identity.KeyFolder {
	return identity.KeyFolder{Dir: file.Path(keysFolder), Signer: identity.Signer(file.Keys.Signer)}
}

// ShowKey returns the public part of a key.
func ShowKey(key identity.NamedKey, file *configs.File, now time.Time) admin.Key {
	shown := admin.Key{
		Name: string(key.Name), PublicKey: base64.RawURLEncoding.EncodeToString(key.Public), KeyID: federation.KeyID(key.Public),
		Since: admin.Moment(key.Since).String(), State: key.State(now), Until: admin.Moment(key.Until).String(),
	}
	switch key.Name {
	case identity.ServerKey:
		shown.DID, shown.DIDKey = federation.HomeID(file.Home.Name).DID(), identity.KeyDID(key.Public)
	case identity.RegistryKey:
		shown.KeyID = signing.RegistryKeyID(key.Public)
	case identity.EndpointKey:
		shown.EndpointID = identity.EndpointID(key.Public)
	case identity.KeptSecret, identity.TokenSecret: // no public part
	}
	return shown
}

// ListKeys returns the public parts of all keys, including rotated ones. It reads files, or blocks
// on a signer.
func (s *Server) ListKeys(ctx context.Context, now time.Time) ([]admin.Key, error) {
	keys, err := KeyFolder(s.file).List(ctx)
	var shown []admin.Key
	for _, key := range keys {
		shown = append(shown, ShowKey(key, s.file, now))
	}
	return shown, err
}

// RefusedKey returns the reason for a refused key as one word, and "" for another error.
func RefusedKey(err error) string {
	switch {
	case errors.Is(err, identity.ErrKeyExists):
		return "key-exists"
	case errors.Is(err, identity.ErrNotRotated):
		return "not-rotated"
	}
	return ""
}

func fetchConfig(file *configs.File) identity.FetchConfig {
	return identity.FetchConfig{
		AllowPrivate: file.Fetch.AllowPrivate, Timeout: file.Fetch.Timeout,
		MaxBytes: file.Fetch.MaxBytes, PerHost: file.Fetch.PerHost, Denied: deniedNetworks(file),
	}
}

// The loader accepts only CIDRs.
func deniedNetworks(file *configs.File) []netip.Prefix {
	var denied []netip.Prefix
	for _, text := range file.Fetch.DeniedNetworks {
		if network, err := netip.ParsePrefix(text); err == nil {
			denied = append(denied, network.Masked())
		}
	}
	return denied
}

// noteFetched logs why a DID document, or a key in it, is unusable, except for an outage of its
// host. It ends the sessions of keys that left the document.
func (s *Server) noteFetched(ctx context.Context, did federation.DID, document federation.Document, err error) error {
	_, away := errors.AsType[*federation.UnavailableError](err)
	switch {
	case errors.Is(err, federation.ErrNotFound), away && !errors.Is(err, identity.ErrRedirect):
		return nil
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelInfo, "document of a did not used", slog.String("did", string(did)), slog.Any("err", err))
		return nil
	case len(document.Skipped) > 0:
		first := document.Skipped[0]
		s.skippedKeys.WithLabelValues(did.Method()).Add(float64(len(document.Skipped)))
		s.log.LogAttrs(ctx, slog.LevelInfo, "unusable keys in a did document", slog.String("did", string(did)), slog.Int("keys", len(document.Skipped)),
			slog.String("key", first.ID), slog.String("reason", first.Reason))
	}
	gone, err := s.Record.EndUnlisted(ctx, did, document.KeyIDs(), time.Now())
	if err != nil || len(gone) == 0 {
		return err
	}
	context.AfterFunc(ctx, func() { s.relay.Wake(bridge.SessionsTopic(string(did)), bridge.WebhooksTopic) }) // after the document was cached for the waiters
	s.log.LogAttrs(ctx, slog.LevelInfo, "keys left the document of a did, and their sessions have ended", slog.String("did", string(did)), slog.Any("keys", gone))
	return nil
}

// KeyLookups looks up the keys of steps in the current key source. The zero value finds none.
type KeyLookups struct {
	atHand  atomic.Pointer[identity.CachedKeys] // replaced when a key is rotated
	lookups *identity.Lookups
}

// Await looks up a missing key. It blocks for at most a second or until ctx ends.
func (k *KeyLookups) Await(ctx context.Context, q federation.KeyQuery) {
	if source := k.atHand.Load(); source != nil {
		source.Await(ctx, q)
	}
}

// Seek starts the lookup of a missing key without blocking.
func (k *KeyLookups) Seek(ctx context.Context, q federation.KeyQuery) {
	if source := k.atHand.Load(); source != nil {
		source.Seek(ctx, q)
	}
}

// Cancel ends the lookups for the steps of a link without blocking.
func (k *KeyLookups) Cancel(link string) {
	if k.lookups != nil {
		k.lookups.Cancel(link)
	}
}

// RotateKey replaces a key of the gateway wherever it is used. The old key can verify signatures
// during the overlap. Its error may be a [*bridge.ProblemError].
func (s *Server) RotateKey(ctx context.Context, text string, overlap time.Duration, now time.Time) (admin.Key, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	name, err := identity.ParseKeyName(text)
	if err != nil {
		return admin.Key{}, &admin.ProblemError{Status: http.StatusBadRequest, Code: admin.CodeUsage, Detail: bridge.OneLine(err)}
	}
	made, err := s.keyring.Rotate(name, overlap, now)
	if word := RefusedKey(err); word != "" {
		return admin.Key{}, &admin.ProblemError{Status: http.StatusConflict, Code: word, Detail: bridge.OneLine(err)}
	}
	if err != nil {
		return admin.Key{}, fmt.Errorf("rotate key %s: %w", name, err)
	}
	if err := s.Record.MarkOwnKeys(context.WithoutCancel(ctx), s.keyring.Marks(now)); err != nil { // the next start deletes it
		s.log.LogAttrs(ctx, slog.LevelError, "rotated key not written to the record", slog.String("key", string(name)), slog.Any("err", err))
	}
	s.useKeys()
	s.Gateway.TellReplicas()
	return ShowKey(made, s.file, now), nil
}

func (s *Server) useKeys() {
	s.openKeys()
	s.limit(s.limited)
}

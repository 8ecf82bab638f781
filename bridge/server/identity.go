package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/store/registry"
)

// newClient returns the guarded client: what fetches at addresses that strangers chose.
func newClient(file *configs.File) *identity.Client { return identity.NewClient(fetchConfig(file)) }

func fetchConfig(file *configs.File) identity.FetchConfig {
	return identity.FetchConfig{
		AllowPrivate: file.Fetch.AllowPrivate, Timeout: file.Fetch.Timeout,
		MaxBytes: file.Fetch.MaxBytes, PerHost: file.Fetch.PerHost, Denied: deniedNetworks(file),
	}
}

// deniedNetworks returns the networks that are never dialled. The loader refuses what is no
// CIDR.
func deniedNetworks(file *configs.File) []netip.Prefix {
	var denied []netip.Prefix
	for _, text := range file.Fetch.DeniedNetworks {
		if network, err := netip.ParsePrefix(text); err == nil {
			denied = append(denied, network.Masked())
		}
	}
	return denied
}

// newDirectory returns what resolves DIDs. What it must ask strangers for, it asks
// through the guarded client.
func newDirectory(file *configs.File, client *identity.Client, homes identity.DirectoryConfig, own ...federation.SigningKey) *identity.Directory {
	return identity.NewDirectory(identity.DirectoryConfig{
		PLC: file.Identity.PLCURL, Fresh: file.Identity.CacheTTL,
		Negative: file.Identity.NegativeTTL, Stale: file.Identity.StaleTTL, Web: homes.Web, Home: homes.Home, Fetched: homes.Fetched, Caught: homes.Caught,
	}, client, own...)
}

// noteFetched logs why the document of a DID, or a key in it, cannot be used. An outage of its host is no news.
// It ends the sessions of keys that the document does not list.
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
	context.AfterFunc(ctx, func() { s.relay.Wake(bridge.SessionsTopic(string(did)), bridge.WebhooksTopic) }) // after the document was cached, for waiters that read it
	s.log.LogAttrs(ctx, slog.LevelInfo, "keys left the document of a did, and their sessions have ended", slog.String("did", string(did)), slog.Any("keys", gone))
	return nil
}

// newKeySource returns what finds out whose key a signature is made with.
func newKeySource(
	file *configs.File, record *registry.Record, client *identity.Client, keyServer func(link string) (string, bool),
	learned func(federation.DID), seconds *prometheus.HistogramVec, directory *identity.Directory,
) *identity.KeySource {
	return identity.NewKeySource(identity.KeySourceConfig{
		Negative: file.Identity.NegativeTTL, Stale: file.Identity.StaleTTL, Peer: keyServer, Learned: learned,
		Ours:   func(ctx context.Context, did federation.DID) bool { return SignsFor(ctx, record, did) },
		Shared: shared(file),
	}, identity.NewTimed(directory, seconds), client, record)
}

// keyFetcher implements [KeyFetcher] with the key sources of now.
type keyFetcher struct{ p *Server }

// Await implements [KeyFetcher].
func (f keyFetcher) Await(ctx context.Context, q federation.KeyQuery) {
	f.p.atHand.Load().Await(ctx, q)
}

// Seek implements [KeyFetcher].
func (f keyFetcher) Seek(ctx context.Context, q federation.KeyQuery) { f.p.atHand.Load().Seek(ctx, q) }

// Cancel implements [KeyFetcher].
func (f keyFetcher) Cancel(link string) { f.p.lookups.Cancel(link) }

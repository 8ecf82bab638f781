package measure

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
)

// mesh has the relays of homes without records, in this process. Each has all others as peers.
type mesh struct {
	homes []meshHome
	keys  keyring
	ctx   context.Context //nolint:containedctx // the lifetime of all homes
	end   context.CancelFunc
	all   sync.WaitGroup
}

type meshHome struct {
	id    federation.HomeID
	key   federation.SigningKey
	hub   *relay.Hub
	peers map[federation.HomeID]*relay.Peer
}

type keyring map[federation.DID]ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k keyring) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return []ed25519.PublicKey{k[q.DID]}, nil
}

// KeyOwner implements [federation.KeySource].
func (keyring) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

type noRecord struct{ relay.Record }

// ListPending implements [relay.Record].
func (noRecord) ListPending(context.Context, federation.HomeID, int) ([]federation.Pending, error) {
	return nil, nil
}

// Shared implements [relay.Record].
func (noRecord) Shared(context.Context, federation.HomeID, federation.HandoffID, int) ([]federation.HandoffID, error) {
	return nil, nil
}

// OfHome implements [relay.Record].
func (noRecord) OfHome(context.Context, federation.HomeID, federation.HandoffID, int) ([]federation.HandoffID, error) {
	return nil, nil
}

// boot has the length of a real boot ID.
const boot = "01M7YZMJF860R30C1G60R30C1H"

// openMesh returns once each home reads all its streams. The caller closes the mesh.
func openMesh(ctx context.Context, dir, url string, names []string) (*mesh, error) {
	ctx, end := context.WithCancel(ctx)
	m := &mesh{keys: keyring{}, ctx: ctx, end: end}
	for _, id := range ids(names) {
		if err := m.add(ctx, dir, url, id, names); err != nil {
			m.close()
			return nil, err
		}
	}
	for _, h := range m.homes {
		for _, peer := range h.peers {
			if err := await(ctx, func() bool { return m.exchange(ctx, h, peer.Home()) == nil }); err != nil {
				m.close()
				return nil, fmt.Errorf("%s does not reach %s: %w", h.id, peer.Home(), err)
			}
		}
	}
	return m, nil
}

func (m *mesh) add(ctx context.Context, dir, url string, id federation.HomeID, names []string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	h := meshHome{id: id, peers: map[federation.HomeID]*relay.Peer{}, key: federation.SigningKey{
		Public: public, DID: id.DID(), Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}}
	m.keys[id.DID()] = public
	log := slog.New(slog.DiscardHandler)
	cfg := relay.HubConfig{ServerConfig: relay.ServerConfig{URLs: []string{url}, NKeyFile: seedFile(dir, string(id))}}
	if h.hub, err = relay.OpenHub(cfg, id, log); err != nil {
		return err
	}
	signer := signing.HomeSigner{Key: func() federation.SigningKey { return h.key }, Keys: func() federation.KeySource { return m.keys }}
	deps := relay.Deps{
		Home: id, Boot: boot, Record: noRecord{}, Signer: signer, Hub: h.hub, PubSub: relay.Local(), Log: log, Now: time.Now,
		Topic: func(home federation.HomeID) string { return string(home) }, MaxHops: func() int { return 3 },
	}
	var peers []*relay.Peer
	for _, other := range ids(names) {
		if other != id {
			h.peers[other] = relay.NewPeer(relay.PeerConfig{Home: other, Path: relay.ByRelay, Mode: relay.Allow}, deps)
			peers = append(peers, h.peers[other])
		}
	}
	mux := http.NewServeMux()
	handler := &relay.PeerHandler{
		Deps: deps, Peer: func(home federation.HomeID) *relay.Peer { return h.peers[home] },
		ClockSkew: func() time.Duration { return time.Minute }, Documents: mux,
	}
	handler.Mount(mux)
	m.all.Go(func() { h.hub.Run(ctx, handler, func() []*relay.Peer { return peers }) })
	m.homes = append(m.homes, h)
	return nil
}

func (m *mesh) close() {
	m.end()
	m.all.Wait()
	for _, h := range m.homes {
		h.hub.Close()
	}
}

// The homes greet idle peers like gateways, until the mesh is closed.
func (m *mesh) greet() {
	for _, h := range m.homes {
		for _, peer := range h.peers {
			m.all.Go(func() {
				for m.ctx.Err() == nil {
					_ = peer.Run(m.ctx, func() {}) // a supervisor would log the error
				}
			})
		}
	}
}

func (m *mesh) exchange(ctx context.Context, h meshHome, to federation.HomeID) error {
	body, err := json.Marshal(map[string]any{
		"type": "steps", "v": relay.Version, "from": h.id, "to": to, "sent": time.Now().UTC(), "items": []any{},
	})
	if err != nil {
		return err
	}
	signature, err := signing.SignHome(ctx, h.key, body)
	if err != nil {
		return err
	}
	_, err = h.hub.Carry(ctx, to, relay.Envelope{Body: body, Signature: signature, Path: []federation.HomeID{h.id}})
	return err
}

func (m *mesh) exchanges(ctx context.Context, during time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var all sync.WaitGroup
	for i := range busyPairs {
		h := m.homes[i%len(m.homes)]
		all.Go(func() {
			for ctx.Err() == nil {
				for to := range h.peers {
					_ = m.exchange(ctx, h, to) // the answers are counted
				}
			}
		})
	}
	all.Wait()
}

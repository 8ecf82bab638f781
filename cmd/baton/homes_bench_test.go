package main_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/registry"
	documents "github.com/baton-gateway/baton/translate/dialect"
)

// lanes is how many handoffs are under way at a time.
const lanes = 256

// BenchmarkDrain measures the delivery of a backlog to another home over HTTP on the same
// machine, with offers of 1 KiB: each verified, judged and on the disk of the other one, its
// receipt verified here, and the row ended on the disk of this one. The metric x_verify is
// its rate as a multiple of that of bare Ed25519 verifications on all cores of the same run,
// p50-ms and p99-ms are the durations of one step with 256 of them under way. For a backlog
// of ten thousand:
//
//	go test ./cmd/baton -run=^$ -bench=Drain -benchtime=10000x
func BenchmarkDrain(b *testing.B) {
	verifies := rawVerifies(b)
	from, to := newBenchHome(b, "a.test"), newBenchHome(b, "b.test")
	to.peers = map[federation.HomeID]*relay.Peer{"a.test": relay.NewPeer(relay.PeerConfig{Home: "a.test", URL: from.server.URL, Mode: relay.Allow}, to.deps)}
	peer := relay.NewPeer(relay.PeerConfig{Home: "b.test", URL: to.server.URL, Mode: relay.Allow}, from.deps)
	rows := from.queue(b, b.N)
	ctx, cancel := context.WithCancel(b.Context())
	up, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = peer.Run(ctx, func() { close(up) })
	}()
	<-up
	b.ResetTimer()
	begun := cpuTime(b, 0)
	took := from.drain(b, peer, rows)
	perSecond := float64(b.N) / b.Elapsed().Seconds()
	b.StopTimer()
	reportCPU(b, cpuTime(b, 0)-begun, b.N)
	cancel()
	<-ended
	slices.Sort(took)
	b.ReportMetric(perSecond, "steps/s")
	b.ReportMetric(perSecond/verifies, "x_verify")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// benchHome is a home with a record on disk. It implements [relay.Gateway],
// [relay.Mailboxes], [relay.Signer], [relay.Poster] and [federation.KeySource].
type benchHome struct {
	*home.Home

	record *registry.Record
	server *httptest.Server
	deps   relay.Deps
	peers  map[federation.HomeID]*relay.Peer
}

func newBenchHome(b *testing.B, id federation.HomeID) *benchHome {
	b.Helper()
	record, err := registry.Open(b.Context(), filepath.Join(b.TempDir(), "baton.db"), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = record.Close() })
	key := benchKey(id)
	h := &benchHome{record: record}
	h.Home = &home.Home{
		Rules: home.Rules{ID: id, Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: time.Hour, MaxDeadline: 720 * time.Hour, Inbox: federation.InboxLimits{Events: 1 << 30, EventsPerSender: 1 << 30}, OpenHandoffs: 1 << 30}},
		Key:   key, Record: record, Entropy: rand.Reader,
		Keys: benchKeys{}, Route: otherHome{id}.Route, Rates: home.NewRates(),
		Same:  func(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil },
		Write: documents.Write, Read: documents.Read,
	}
	h.deps = relay.Deps{
		Home: id, Record: record, Gateway: h, Mailboxes: h, Signer: h, Poster: h, PubSub: (*relay.Relay)(nil), Log: slog.New(slog.DiscardHandler),
		Read: documents.FromDocument, Now: time.Now, Topic: func(federation.HomeID) string { return "" }, MaxHops: func() int { return 8 },
	}
	mux := http.NewServeMux()
	(&relay.PeerHandler{Deps: h.deps, Peer: func(home federation.HomeID) *relay.Peer { return h.peers[home] }}).Mount(mux)
	h.server = httptest.NewServer(mux)
	b.Cleanup(h.server.Close)
	return h
}

// benchKey is the key of a home, made of its name.
func benchKey(id federation.HomeID) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(append([]byte(id), make([]byte, ed25519.SeedSize-len(id))...))
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{DID: id.DID(), Public: public, Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
}

// benchKeys knows the keys of did:keys and of these homes.
type benchKeys struct{}

// Keys implements [federation.KeySource].
func (benchKeys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := identity.ParseKeyDID(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	return []ed25519.PublicKey{benchKey(federation.HomeID(q.DID[len("did:web:"):])).Public}, nil
}

// KeyOwner implements [federation.KeySource].
func (benchKeys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// otherHome owes the steps of one home to the other.
type otherHome struct{ at federation.HomeID }

// Route is the route of [home.Home].
func (o otherHome) Route(context.Context, federation.Event, federation.View) (federation.Fanout, error) {
	if o.at == "a.test" {
		return federation.Fanout{Links: []string{"b.test"}}, nil
	}
	return federation.Fanout{}, nil
}

// Submit implements [relay.Gateway].
func (h *benchHome) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	return h.Home.Submit(ctx, ev, time.Now())
}

// FileRuled implements [relay.Gateway].
func (h *benchHome) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	return h.Home.FileRuled(ctx, ev, r, time.Now())
}

// Say implements relay.Gateway.
func (*benchHome) Say(context.Context, federation.Text) (bool, error) { return false, nil }

// RejectPending implements [relay.Gateway].
func (*benchHome) RejectPending(context.Context, federation.Pending, federation.RefusalCode, string) error {
	return nil
}

// Place implements [relay.Gateway].
func (*benchHome) Place(context.Context, federation.Event) (federation.ChannelRef, error) {
	return federation.ChannelRef{}, nil
}

// MaySpeakFor implements [relay.Mailboxes].
func (*benchHome) MaySpeakFor(context.Context, federation.DID, ...federation.HomeID) (bool, error) {
	return true, nil
}

// Here implements [relay.Mailboxes].
func (*benchHome) Here(context.Context, federation.DID) (bool, error) { return false, nil }

// MovedHere implements [relay.Mailboxes].
func (*benchHome) MovedHere(context.Context, federation.DID, federation.HomeID) (bool, error) {
	return false, nil
}

// MovedFrom implements [relay.Mailboxes].
func (*benchHome) MovedFrom(context.Context, federation.HomeID) (bool, error) { return false, nil }

// TakeOver implements [relay.Mailboxes].
func (*benchHome) TakeOver(context.Context, federation.DID, federation.HomeID, time.Time) (string, error) {
	return "", nil
}

// MovedAway implements [relay.Mailboxes].
func (*benchHome) MovedAway(context.Context, federation.View, time.Time) []federation.MovedMailbox {
	return nil
}

// LearnMove implements [relay.Mailboxes].
func (*benchHome) LearnMove(context.Context, federation.MovedMailbox, federation.HomeID, time.Time) error {
	return nil
}

// Sign implements [relay.Signer].
func (h *benchHome) Sign(ctx context.Context, message []byte) (string, error) {
	return signing.SignHome(ctx, h.Key, message)
}

// Verify implements [relay.Signer].
func (*benchHome) Verify(ctx context.Context, by federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return signing.VerifyHome(ctx, benchKeys{}, by, message, signature, at)
}

// Post implements [relay.Poster].
func (*benchHome) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(e.Body))
	if err != nil {
		return relay.Envelope{}, err
	}
	request.Header = e.Header()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return relay.Envelope{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return relay.NewEnvelope(text, response.Header), err
}

// Get implements [relay.Poster].
func (*benchHome) Get(context.Context, string) (relay.Envelope, error) { return relay.Envelope{}, nil }

// queue files offers while the other home is away, and returns its pending
// deliveries.
func (h *benchHome) queue(b *testing.B, offers int) []federation.Delivery {
	b.Helper()
	submitAll(b, judging(h.Home), signedOffers(b, offers), lanes)
	var rows []federation.Delivery
	for len(rows) < offers {
		var after federation.Delivery
		if len(rows) > 0 {
			after = rows[len(rows)-1]
		}
		page, err := h.record.Outbox(b.Context(), "b.test", after, 1000)
		if err != nil || len(page) == 0 {
			b.Fatalf("%d rows are owed, %v", len(rows), err)
		}
		rows = append(rows, page...)
	}
	return rows
}

func (h *benchHome) drain(b *testing.B, peer *relay.Peer, rows []federation.Delivery) []time.Duration {
	b.Helper()
	took := make([]time.Duration, len(rows))
	var next atomic.Int64
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(rows)); n = next.Add(1) - 1 {
				start := time.Now()
				err := peer.Deliver(b.Context(), rows[n])
				if err == nil {
					err = h.record.Rows().Settle(b.Context(), "b.test", []int64{rows[n].Row}, federation.Settlement{At: time.Now()})
				}
				if err != nil {
					b.Errorf("deliver: %v", err)
					return
				}
				took[n] = time.Since(start)
			}
		})
	}
	all.Wait()
	return took
}

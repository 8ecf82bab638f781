package macp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// callers of the benchmarks at a time, each with a session and a participant of its own.
const callers = 64

// BenchmarkSend sends durable contexts at 64 callers, up to the rate that a participant has: 600 for
// each caller.
func BenchmarkSend(b *testing.B) {
	w, sends := newWorld(b, callerNames()...), int64(b.N)
	for i := range callers {
		owner, target := callerNames()[2*i], callerNames()[2*i+1]
		w.begin(b, session(i), owner, target)
		if ack := w.send(b, envelope(b, session(i), macpmode.TypeOffer, "o", owner, offerTo(target))); !ack.GetOk() {
			b.Fatal(ack)
		}
	}
	send(b, w, sends)
}

// BenchmarkBareSend is the baseline of [BenchmarkSend]: the same calls to a server that files
// each envelope as one row.
func BenchmarkBareSend(b *testing.B) {
	w := newWorld(b, callerNames()...)
	w.stop()
	var rows atomic.Int64
	const method = "/macp.v1.MACPRuntimeService/Send"
	handler := connect.NewUnaryHandler(method, func(ctx context.Context, r *connect.Request[macpv1.SendRequest]) (*connect.Response[macpv1.SendResponse], error) {
		text, err := proto.Marshal(r.Msg.GetEnvelope())
		if err == nil {
			err = w.deps.Journals.WriteJournals(ctx, []federation.JournalWrite{{Name: fmt.Sprint("bare/", rows.Add(1)), Entries: [][]byte{text}}})
		}
		return connect.NewResponse(&macpv1.SendResponse{Ack: &macpv1.Ack{Ok: true}}), err
	})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = protocols
	server.Start()
	b.Cleanup(server.Close)
	w.cfg.Listen = server.Listener.Addr().String()
	send(b, w, int64(b.N))
}

func callerNames() (names []string) {
	for i := range callers {
		names = append(names, fmt.Sprintf("owner-%d", i), fmt.Sprintf("target-%d", i))
	}
	return names
}

// send has all callers send contexts, and reports their rate.
func send(b *testing.B, w *world, sends int64) {
	b.Helper()
	var sent atomic.Int64
	var all sync.WaitGroup
	names, began := callerNames(), time.Now()
	for i := range callers {
		all.Go(func() {
			for n := sent.Add(1); n <= sends; n = sent.Add(1) {
				payload := &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "text/plain", Context: make([]byte, 512)}
				if ack := w.send(b, envelope(b, session(i), macpmode.TypeContext, fmt.Sprint("c", n), names[2*i], payload)); !ack.GetOk() {
					b.Errorf("%v", ack)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(sends)/time.Since(began).Seconds(), "sends/s")
}

// BenchmarkReplay reads a session of 10,000 envelopes from its journal.
func BenchmarkReplay(b *testing.B) {
	const envelopes = 10_000
	w := newWorld(b, "owner", "target")
	fill(b, w, session(1), envelopes)
	owner := bridgetest.NewMACPClient(w.cfg.Listen, "owner", token("owner"))
	b.Cleanup(owner.Close)
	for b.Loop() {
		count := 0
		if err := owner.Follow(b.Context(), session(1), 0, func(*macpv1.Envelope) bool {
			count++
			return count < envelopes
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*envelopes)/b.Elapsed().Seconds(), "envelopes/s")
}

// fill writes the history of a session to its journal.
func fill(b *testing.B, w *world, id string, envelopes int) {
	b.Helper()
	w.begin(b, id, "owner", "target")
	w.send(b, envelope(b, id, macpmode.TypeOffer, "o", "owner", offerTo("target")))
	w.stop()
	name := "macp/session/" + id
	length, err := w.deps.Journals.JournalLength(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	write := federation.JournalWrite{Name: name, Length: length}
	for i := 2; i < envelopes; i++ {
		payload := &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "text/plain", Context: make([]byte, 512)}
		text, err := proto.Marshal(envelope(b, id, macpmode.TypeContext, fmt.Sprint("c", i), "owner", payload))
		if err == nil {
			text, err = proto.Marshal(&historyv1.Entry{AtUnixMs: time.Now().UnixMilli(), Envelope: text, Source: historyv1.Source_SOURCE_PARTICIPANT})
		}
		if err != nil {
			b.Fatal(err)
		}
		write.Entries = append(write.Entries, text)
	}
	if err := w.deps.Journals.WriteJournals(b.Context(), []federation.JournalWrite{write}); err != nil {
		b.Fatal(err)
	}
	w.start(b)
}

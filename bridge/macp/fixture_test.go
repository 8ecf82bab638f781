package macp_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func TestRuntimeFollowsTheProtocolFixtures(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	fixtures, err := bridgetest.MACPFixtures(filepath.Join(dir, "macp"))
	if err != nil || len(fixtures) < 20 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	names := []string{"did:plc:stranger"}
	for _, f := range fixtures {
		names = append(names, f.Participants...)
	}
	slices.Sort(names)
	w := newWorld(t, slices.Compact(names)...)
	want := map[string]*macpv1.SessionMetadata{}
	streams := map[string][]string{}
	for i, f := range fixtures {
		id := session(i)
		play(t, w, id, f)
		want[id], streams[id] = metadata(t, w, f.Initiator, id), follow(t, w, f.Initiator, id, 0)
	}
	w.stop()
	w.start(t)
	for i, f := range fixtures {
		id := session(i)
		if diff := cmp.Diff(want[id], metadata(t, w, f.Initiator, id), cmp.Comparer(proto.Equal)); diff != "" {
			t.Errorf("%s: after a restart (-before +after):\n%s", f.Description, diff)
		}
		if diff := cmp.Diff(streams[id], follow(t, w, f.Initiator, id, 0)); diff != "" {
			t.Errorf("%s: replayed after a restart (-before +after):\n%s", f.Description, diff)
		}
	}
}

func play(t *testing.T, w *world, id string, f bridgetest.MACPFixture) {
	t.Helper()
	if policy := f.Descriptor(); policy != nil {
		answer, err := call[macpv1.RegisterPolicyRequest, macpv1.RegisterPolicyResponse](t, w, f.Initiator, "RegisterPolicy", &macpv1.RegisterPolicyRequest{PolicyDescriptor: policy})
		if err != nil || !answer.GetOk() {
			t.Fatalf("%s: register policy: %v, %v", f.Description, answer, err)
		}
	}
	if ack := w.send(t, envelope(t, id, macpmode.TypeSessionStart, "m0", f.Initiator, f.Start())); !ack.GetOk() {
		t.Fatalf("%s: start: %v", f.Description, ack)
	}
	for i, m := range f.Messages {
		payload, err := m.Message()
		if err != nil {
			t.Fatal(err)
		}
		ack := w.send(t, envelope(t, id, m.Type, "m"+strconv.Itoa(i+1), m.Sender, payload))
		if ack.GetOk() != (m.Expect == "accept") || m.Code != "" && ack.GetError().GetCode() != m.Code {
			t.Errorf("%s: message %d, %s: %v, want %s %s", f.Description, i+1, m.Type, ack, m.Expect, m.Code)
		}
	}
	if state := metadata(t, w, f.Initiator, id).GetState().String(); !strings.EqualFold(strings.TrimPrefix(state, "SESSION_STATE_"), f.FinalState) {
		t.Errorf("%s: the session is %s, want %s", f.Description, state, f.FinalState)
	}
}

func metadata(t *testing.T, w *world, as, id string) *macpv1.SessionMetadata {
	t.Helper()
	answer, err := call[macpv1.GetSessionRequest, macpv1.GetSessionResponse](t, w, as, "GetSession", &macpv1.GetSessionRequest{SessionId: id})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetMetadata()
}

// follow returns the envelopes of a session after a number, as bytes, up to the newest.
func follow(t *testing.T, w *world, as, id string, after uint64) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	total := 0
	for _, a := range metadata(t, w, as, id).GetParticipantActivity() {
		total += int(a.GetMessageCount())
	}
	stream := subscribe(ctx, t, w, as, id, after)
	defer func() { cancel(); _ = stream.CloseResponse() }()
	var all []string
	for len(all) < total-int(after) {
		frame, err := stream.Receive()
		if err != nil {
			t.Fatalf("after %d of %d envelopes: %v", len(all), total, err)
		}
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame.GetEnvelope())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

func subscribe(ctx context.Context, tb testing.TB, w *world, as, id string, after uint64) *connect.BidiStreamForClient[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse] {
	tb.Helper()
	client := connect.NewClient[macpv1.StreamSessionRequest, macpv1.StreamSessionResponse](
		w.client, "http://"+w.cfg.Listen+"/macp.v1.MACPRuntimeService/StreamSession", connect.WithGRPC())
	stream := client.CallBidiStream(ctx)
	stream.RequestHeader().Set("Authorization", "Bearer "+token(as))
	if err := stream.Send(&macpv1.StreamSessionRequest{SubscribeSessionId: id, AfterSequence: after}); err != nil {
		tb.Fatal(err)
	}
	return stream
}

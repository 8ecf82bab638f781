package macp_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func wireVectors(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "macp", "wire-vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Vectors []struct {
			Name string `json:"name"`
			Wire string `json:"wire_hex"`
		} `json:"vectors"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, v := range raw.Vectors {
		if all[v.Name], err = hex.DecodeString(v.Wire); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// vectorMessage is a message whose payload is the bytes of a vector.
type vectorMessage struct {
	vector, kind, sender string
	code                 string // "" for an accepted message
}

// The runtime takes the bytes of each vector over gRPC and gives them back on the stream of the
// session.
func TestWireBytesMatchTheVectors(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	vectors := wireVectors(t, dir)
	const owner, target = "did:plc:eliza", "did:plc:scholar"
	start := func(vector string) vectorMessage { return vectorMessage{vector, macpmode.TypeSessionStart, owner, ""} }
	offer := vectorMessage{"offer", macpmode.TypeOffer, owner, ""}
	w := newWorld(t, owner, target, "stranger")
	sent := map[string]bool{}
	for i, messages := range [][]vectorMessage{
		{
			start("session_start"), offer,
			{"context_json", macpmode.TypeContext, owner, ""},
			{"context_binary", macpmode.TypeContext, owner, ""},
			{"accept_implicit_true_proto_0_1_6", macpmode.TypeAccept, target, "INVALID_ENVELOPE"},
			{"accept", macpmode.TypeAccept, target, ""},
			{"commit_accepted", macpmode.TypeCommitment, owner, ""},
		},
		{
			start("session_start_max_suspend_proto_0_1_5"), offer,
			{"accept_minimal", macpmode.TypeAccept, target, ""},
			{"commit_supersedes", macpmode.TypeCommitment, owner, "INVALID_ENVELOPE"}, // its commitment_hash is none
		},
		{start("session_start"), offer, {"decline", macpmode.TypeDecline, target, ""}, {"commit_declined", macpmode.TypeCommitment, owner, ""}},
	} {
		var want []string
		for _, m := range messages {
			env := envelope(t, session(i), m.kind, m.vector, m.sender, nil)
			env.Payload, sent[m.vector] = vectors[m.vector], true
			if ack := w.send(t, env); ack.GetError().GetCode() != m.code || ack.GetOk() != (m.code == "") {
				t.Errorf("session %d, %s: %v, want %q", i, m.vector, ack, m.code)
			}
			if m.code == "" {
				want = append(want, string(vectors[m.vector]))
			}
		}
		got := follow(t, w, owner, session(i), 0)
		if len(got) != len(want) {
			t.Fatalf("session %d: the stream has %d messages, want %d", i, len(got), len(want))
		}
		for n, text := range got {
			var env macpv1.Envelope
			if err := proto.Unmarshal([]byte(text), &env); err != nil || string(env.GetPayload()) != want[n] {
				t.Errorf("session %d, message %d: the stream has %x, %v, want %x", i, n, env.GetPayload(), err, want[n])
			}
		}
	}
	for _, name := range answers(t, w, vectors) {
		sent[name] = true
	}
	for name := range vectors {
		if !sent[name] {
			t.Errorf("no message has the bytes of %s", name)
		}
	}
}

// answers sends the whole envelope of a vector, and an accept of a participant other than the
// target. The Acks are the bytes of their vectors, but for the time, the text of the error and the
// state beside it. It returns the names of these vectors.
func answers(t *testing.T, w *world, vectors map[string][]byte) []string {
	t.Helper()
	var offer macpv1.Envelope
	if err := proto.Unmarshal(vectors["envelope_offer"], &offer); err != nil {
		t.Fatal(err)
	}
	id := offer.GetSessionId()
	w.begin(t, id, offer.GetSender(), "did:plc:scholar", "stranger")
	ok := w.send(t, &offer)
	rejected := w.send(t, envelope(t, id, macpmode.TypeAccept, "m9", "stranger", &handoffv1.HandoffAcceptPayload{HandoffId: "01K0GATEWAYHANDOFF00000001"}))
	for name, ack := range map[string]*macpv1.Ack{"ack_ok": ok, "ack_reject": rejected} {
		var want macpv1.Ack
		if err := proto.Unmarshal(vectors[name], &want); err != nil {
			t.Fatal(err)
		}
		ack.AcceptedAtUnixMs = want.GetAcceptedAtUnixMs()
		if ack.GetError() != nil {
			ack.Error.Message = want.GetError().GetMessage()
			ack.SessionState = want.GetSessionState() // this runtime tells the state with a refusal too
		}
		if got, err := (proto.MarshalOptions{Deterministic: true}).Marshal(ack); err != nil || !bytes.Equal(got, vectors[name]) {
			t.Errorf("%s: the answer is %v, %v, want %v", name, ack, err, &want)
		}
	}
	stream := follow(t, w, offer.GetSender(), id, 0)
	if len(stream) != 2 || stream[1] != string(vectors["envelope_offer"]) {
		t.Errorf("the stream has %q", stream)
	}
	return []string{"envelope_offer", "ack_ok", "ack_reject"}
}

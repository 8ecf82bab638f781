package macpmode_test

import (
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// FuzzEnvelope reads an envelope from both of its forms. What was read is written and read again
// without a change.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"macp_version":"1.0","message_type":"HandoffOffer","message_id":"m1","session_id":"s","timestamp":"2026-06-01T14:00:00+02:00","payload":{"handoff_id":"h1"}}`))
	f.Add([]byte(`{"message_type":"Signal","payload_b64":"CgJoMQ==","timestamp_unix_ms":"1780315200000"}`))
	f.Add([]byte(`{"macp_version":"1.0","message_type":"Signal","message_id":"m1","timestamp_unix_ms":"9223372036854775807"}`))
	f.Add([]byte(`{"message_type":"SessionStart","payload":{"ttl_ms":"60000","extensions":{"x":"e30="},"roots":[{"uri":"urn:x"}]}}`))
	wire, err := proto.Marshal(&macpv1.Envelope{MessageType: macpmode.TypeAccept, MessageId: "m", TimestampUnixMs: begun, Payload: []byte{0x0a, 0x01, 'h'}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Fuzz(func(t *testing.T, text []byte) {
		var env macpv1.Envelope
		if macpmode.ReadJSON(text, &env) != nil && proto.Unmarshal(text, &env) != nil {
			return
		}
		env.ProtoReflect().SetUnknown(nil) // JSON has no place for them
		if macpmode.CheckShape(&env) != nil {
			return
		}
		written, err := macpmode.JSON(&env)
		if err != nil {
			t.Fatalf("%v is not written: %v", &env, err)
		}
		var again macpv1.Envelope
		if err := macpmode.ReadJSON(written, &again); err != nil || !proto.Equal(&env, &again) {
			t.Errorf("%v is written as %s and read as %v, %v", &env, written, &again, err)
		}
	})
}

func kinds() []string {
	return []string{macpmode.TypeOffer, macpmode.TypeContext, macpmode.TypeAccept, macpmode.TypeDecline, macpmode.TypeCommitment, macpmode.TypeSessionStart}
}

// FuzzPayload gives a session a payload in both of its forms: the bytes of the wire, and JSON. The
// session that accepted it is the one that its history restores.
func FuzzPayload(f *testing.F) {
	for i, m := range []proto.Message{
		&handoffv1.HandoffOfferPayload{HandoffId: "h2", TargetParticipant: "target"},
		&handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{"k":"v"}`)},
		&handoffv1.HandoffAcceptPayload{HandoffId: "h1", AcceptedBy: "target"},
		&handoffv1.HandoffDeclinePayload{HandoffId: "h1", Reason: "no"},
		&macpv1.CommitmentPayload{CommitmentId: "c", Action: "handoff.accepted", AuthorityScope: "s", Reason: "r", ModeVersion: "1.0.0", ConfigurationVersion: "c", OutcomePositive: true},
	} {
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		text, err := macpmode.JSON(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), wire)
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, kind uint8, payload []byte) {
		name := kinds()[int(kind)%len(kinds())]
		if m := macpmode.PayloadOf(name); macpmode.ReadJSON(payload, m) == nil {
			wire, err := proto.Marshal(m)
			if err != nil {
				t.Fatalf("%s is read as %v, which has no bytes: %v", payload, m, err)
			}
			payload = wire
		}
		s := start(t, "owner", &macpv1.SessionStartPayload{Participants: []string{"owner", "target"}, ModeVersion: "1.0.0", ConfigurationVersion: "c", TtlMs: 60_000}, nil)
		s.take(t, accepted(t, s, macpmode.TypeOffer, "owner", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "target"}))
		for _, sender := range []string{"owner", "target"} {
			env := envelope(t, name, "fuzzed-"+sender, sender, nil)
			env.Payload = slices.Clone(payload)
			entry, err := s.Check(env, begun+1)
			if err != nil {
				if code(err) == "" {
					t.Fatalf("%s of %s is refused without a code: %v", name, sender, err)
				}
				continue
			}
			s.take(t, entry)
		}
		replayed(t, s)
		for _, offer := range s.Offers {
			d, _ := macpmode.Describe(s.Session, &offer, nil)
			if d.Title == "" {
				t.Errorf("an offer without a title: %+v", offer)
			}
		}
	})
}

// accepted returns the entry of a message that the session accepts.
func accepted(t *testing.T, s *live, kind, sender string, payload proto.Message) *historyv1.Entry {
	t.Helper()
	entry, err := s.Check(envelope(t, kind, kind, sender, payload), begun)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// FuzzStep reads the data of a signal that asks for a step. The context of the step is empty or
// one that a step can have.
func FuzzStep(f *testing.F) {
	f.Add([]byte(`{"verb":"complete","note":"three found","result":{"sources":["a"]},"retryable":false}`))
	f.Add([]byte(`{"verb":"fail","retryable":true}`))
	f.Add([]byte(`{"verb":"progress","result":"text"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		step, err := macpmode.ReadStep(data)
		if err != nil {
			if code(err) != string(macpmode.InvalidEnvelope) {
				t.Errorf("%s: %v", data, err)
			}
			return
		}
		if text := step.Context(); text != "" && (!federation.InlineContext(text) || !json.Valid([]byte(text))) {
			t.Errorf("%s has the context %s", data, text)
		}
	})
}

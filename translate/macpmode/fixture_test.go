package macpmode_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

const (
	sessionID = "6f0d2c1e-8a55-4b7e-9d0a-2f6d5f1f7a10"
	begun     = int64(1_780_315_200_000) // when the sessions of tests start, unix milliseconds
	skew      = int64(120_000)
)

// vectors returns the folder of the fixtures, "" if none is at hand.
func vectors(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return ""
	}
	return filepath.Join(dir, "macp")
}

func envelope(t *testing.T, kind, id, sender string, payload proto.Message) *macpv1.Envelope {
	t.Helper()
	text, err := proto.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return &macpv1.Envelope{
		MacpVersion: "1.0", Mode: macpmode.Mode, MessageType: kind, MessageId: id, SessionId: sessionID, Sender: sender, TimestampUnixMs: begun, Payload: text,
	}
}

type live struct {
	*macpmode.Session

	history [][]byte
}

func (l *live) take(t *testing.T, entry *historyv1.Entry) {
	t.Helper()
	text, err := proto.Marshal(entry)
	if err == nil {
		err = l.Apply(entry)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.history = append(l.history, text)
}

func start(t *testing.T, owner string, p *macpv1.SessionStartPayload, policy *macpv1.PolicyDescriptor) *live {
	t.Helper()
	if policy == nil {
		policy = macpmode.BuiltIn()
	}
	entry, err := macpmode.Start(envelope(t, macpmode.TypeSessionStart, "m0", owner, p), policy, begun, skew)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{Session: &macpmode.Session{}}
	l.take(t, entry)
	return l
}

// code returns the code of an error, "" for nil.
func code(err error) string {
	refused, ok := errors.AsType[*macpmode.Error](err)
	if !ok {
		return ""
	}
	return string(refused.Code)
}

func TestSessionFollowsTheProtocolFixtures(t *testing.T) {
	t.Parallel()
	dir := vectors(t)
	if dir == "" {
		return
	}
	fixtures, err := bridgetest.MACPFixtures(dir)
	if err != nil || len(fixtures) < 20 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	for _, f := range fixtures {
		t.Run(f.Description, func(t *testing.T) {
			t.Parallel()
			play(t, f)
		})
	}
}

// play sends the messages of a fixture and compares the results.
func play(t *testing.T, f bridgetest.MACPFixture) {
	t.Helper()
	s := start(t, f.Initiator, f.Start(), f.Descriptor())
	for i, m := range f.Messages {
		payload, err := m.Message()
		if err != nil {
			t.Fatal(err)
		}
		entry, err := s.Check(envelope(t, m.Type, "m"+strconv.Itoa(i+1), m.Sender, payload), begun+int64(i))
		if accepted := err == nil; accepted != (m.Expect == "accept") || m.Code != "" && code(err) != m.Code {
			t.Fatalf("message %d, %s: %v, want %s %s", i+1, m.Type, err, m.Expect, m.Code)
		}
		if err == nil {
			s.take(t, entry)
		}
	}
	if got := strings.TrimPrefix(s.State.String(), "SESSION_STATE_"); !strings.EqualFold(got, f.FinalState) {
		t.Errorf("the session is %s, want %s", got, f.FinalState)
	}
	for id, want := range f.ModeState.Offers {
		if offer := s.Offer(id); offer == nil || string(offer.Disposition) != want.Disposition {
			t.Errorf("offer %s is %+v, want %s", id, offer, want.Disposition)
		}
	}
	checkResolution(t, s.Session, f)
	replayed(t, s)
}

func checkResolution(t *testing.T, s *macpmode.Session, f bridgetest.MACPFixture) {
	t.Helper()
	if f.ResolutionPresent != nil && (s.Resolution != nil) != *f.ResolutionPresent {
		t.Errorf("the resolution is %x", s.Resolution)
	}
	var got macpv1.CommitmentPayload
	if err := proto.Unmarshal(s.Resolution, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range f.Resolution {
		field := got.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
		if value := got.ProtoReflect().Get(field).Interface(); value != want {
			t.Errorf("%s of the resolution is %v, want %v", name, value, want)
		}
	}
}

// replayed compares a session with the one that its history restores.
func replayed(t *testing.T, s *live) {
	t.Helper()
	again := &macpmode.Session{}
	for _, text := range s.history {
		var entry historyv1.Entry
		if err := proto.Unmarshal(text, &entry); err != nil {
			t.Fatal(err)
		}
		if err := again.Apply(&entry); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(s.Session, again, cmp.AllowUnexported(macpmode.Session{}, macpmode.Offer{}, macpmode.Policy{}), cmp.Comparer(proto.Equal)); diff != "" {
		t.Errorf("the history restores another session (-live +restored):\n%s", diff)
	}
}

func TestWireBytesMatchTheProtocolFixtures(t *testing.T) {
	t.Parallel()
	dir := vectors(t)
	if dir == "" {
		return
	}
	var file struct {
		Vectors []struct {
			Name    string          `json:"name"`
			Message string          `json:"message"`
			JSON    json.RawMessage `json:"proto_names_json"`
			Wire    string          `json:"wire_hex"`
		} `json:"vectors"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "wire-vectors.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || len(file.Vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(v.Message))
			if err != nil {
				t.Fatal(err)
			}
			m := kind.New().Interface()
			if len(v.JSON) > 0 {
				err = protojson.Unmarshal(v.JSON, m)
			}
			wire, badHex := hex.DecodeString(v.Wire)
			if err = errors.Join(err, badHex); err != nil {
				t.Fatal(err)
			}
			read := kind.New().Interface()
			if err := proto.Unmarshal(wire, read); err != nil {
				t.Fatal(err)
			}
			if len(v.JSON) > 0 && !proto.Equal(m, read) {
				t.Errorf("the bytes are %v, the JSON is %v", read, m)
			}
			written, err := proto.MarshalOptions{Deterministic: true}.Marshal(read)
			if err != nil || hex.EncodeToString(written) != v.Wire {
				t.Errorf("written again: %x, %v", written, err)
			}
		})
	}
}

package macpmode

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// Every JSON reader reads integers up to this one exactly.
const maxExactInt = 1<<53 - 1

// timeLayout is RFC 3339 with the milliseconds of an envelope.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// A later envelope time stays a number, so that evidence and envelope have the same time.
const maxYear = 9999

// JSON writes a message in the canonical JSON of the protocol, with defaults written out.
//
// spec: RFC-MACP-0001 §10
func JSON(m proto.Message) ([]byte, error) {
	value, err := jsonMessage(m.ProtoReflect())
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

func jsonMessage(m protoreflect.Message) (any, error) {
	members := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.HasPresence() && !m.Has(field) {
			continue
		}
		value, err := jsonField(field, m.Get(field))
		if err != nil {
			return nil, err
		}
		members[string(field.Name())] = value
	}
	switch of := m.Interface().(type) {
	case *macpv1.Envelope:
		delete(members, "payload")
		if at := time.UnixMilli(of.GetTimestampUnixMs()).UTC(); at.Year() >= 0 && at.Year() <= maxYear {
			delete(members, "timestamp_unix_ms")
			members["timestamp"] = at.Format(timeLayout)
		}
		members["payload_b64"] = base64.StdEncoding.EncodeToString(of.GetPayload())
	case *macpv1.PolicyDescriptor:
		if json.Valid([]byte(of.GetRules())) {
			members["rules"] = json.RawMessage(of.GetRules())
		}
	}
	return members, nil
}

func jsonField(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	switch {
	case field.IsMap():
		members, err := map[string]any{}, error(nil)
		value.Map().Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
			members[key.String()], err = jsonScalar(field.MapValue(), v)
			return err == nil
		})
		return members, err
	case field.IsList():
		list := make([]any, value.List().Len())
		for i := range list {
			var err error
			if list[i], err = jsonScalar(field, value.List().Get(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return jsonScalar(field, value)
}

func jsonScalar(field protoreflect.FieldDescriptor, value protoreflect.Value) (any, error) {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		return jsonMessage(v)
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case protoreflect.EnumNumber:
		if named := field.Enum().Values().ByNumber(v); named != nil {
			return string(named.Name()), nil
		}
		return int32(v), nil
	case int64:
		if v > maxExactInt || v < -maxExactInt {
			return strconv.FormatInt(v, 10), nil
		}
		return v, nil
	case uint64:
		if v > maxExactInt {
			return strconv.FormatUint(v, 10), nil
		}
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
		return v, nil
	default:
		return v, nil
	}
}

// ReadJSON parses a message from canonical JSON. It ignores unknown members.
func ReadJSON(text []byte, into proto.Message) error {
	adapted, err := adapt(text, into.ProtoReflect().Descriptor())
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(adapted, into)
	}
	if err != nil {
		return Refuse(InvalidRequest, "the body is not a %s", into.ProtoReflect().Descriptor().Name())
	}
	return nil
}

// The Go library reads other forms of JSON than the protocol defines.
func adapt(text []byte, as protoreflect.MessageDescriptor) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(text, &members); err != nil {
		return nil, err
	}
	for name, member := range maps.Clone(members) {
		field := as.Fields().ByName(protoreflect.Name(name))
		if field == nil { // unknown, or spelled differently from the protocol
			if !isForm(as, name) {
				delete(members, name)
			}
			continue
		}
		if field.Message() == nil || field.IsMap() || field.IsList() || bytes.Equal(member, []byte("null")) || isForm(as, name) {
			continue
		}
		inner, err := adapt(member, field.Message())
		if err != nil {
			return nil, err
		}
		members[name] = inner
	}
	if err := adaptForms(members, as); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

func isForm(as protoreflect.MessageDescriptor, name string) bool {
	switch as.FullName() {
	case "macp.v1.Envelope":
		return name == "timestamp" || name == "payload" || name == "payload_b64"
	case "macp.v1.PolicyDescriptor":
		return name == "rules"
	}
	return false
}

func adaptForms(members map[string]json.RawMessage, as protoreflect.MessageDescriptor) error {
	switch as.FullName() {
	case "macp.v1.Envelope":
		return adaptEnvelope(members)
	case "macp.v1.PolicyDescriptor":
		if text := members["rules"]; len(text) > 0 && text[0] == '{' {
			quoted, err := json.Marshal(string(text))
			members["rules"] = quoted
			return err
		}
	}
	return nil
}

func adaptEnvelope(members map[string]json.RawMessage) error {
	if text, there := members["timestamp"]; there {
		delete(members, "timestamp")
		var at time.Time
		if err := federation.DecodeJSON(text, &at); err != nil {
			return err
		}
		members["timestamp_unix_ms"] = json.RawMessage(strconv.FormatInt(at.UnixMilli(), 10))
	}
	encoded, there := members["payload_b64"]
	payload, both := members["payload"]
	delete(members, "payload_b64")
	delete(members, "payload")
	switch {
	case there && both:
		return fmt.Errorf("an envelope has one of payload and payload_b64")
	case there:
		members["payload"] = encoded
	case both:
		bytesOf, err := payloadBytes(members["message_type"], payload)
		if err != nil {
			return err
		}
		if members["payload"], err = json.Marshal(bytesOf); err != nil {
			return err
		}
	}
	return nil
}

func payloadBytes(kind, payload json.RawMessage) ([]byte, error) {
	var name string
	if err := federation.DecodeJSON(kind, &name); err != nil {
		return nil, err
	}
	m := PayloadOf(name)
	if m == nil {
		return nil, fmt.Errorf("no payload is known for %q", name)
	}
	if err := ReadJSON(payload, m); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// PayloadOf returns an empty payload for a message type, or nil for an unknown type.
func PayloadOf(kind string) proto.Message { //nolint:ireturn // each type of message has a type of payload
	switch kind {
	case TypeSessionStart:
		return &macpv1.SessionStartPayload{}
	case TypeOffer:
		return &handoffv1.HandoffOfferPayload{}
	case TypeContext:
		return &handoffv1.HandoffContextPayload{}
	case TypeAccept:
		return &handoffv1.HandoffAcceptPayload{}
	case TypeDecline:
		return &handoffv1.HandoffDeclinePayload{}
	case TypeCommitment:
		return &macpv1.CommitmentPayload{}
	case TypeSignal:
		return &macpv1.SignalPayload{}
	case TypeProgress:
		return &macpv1.ProgressPayload{}
	}
	return nil
}

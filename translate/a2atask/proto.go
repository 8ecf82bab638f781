package a2atask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
)

// A protocol buffer number, a double, keeps this number of decimal digits exactly.
const exactDigits = 15

// ForProto returns a message in a form that protocol buffers can carry. The library encodes data only
// if it is an object, with numbers as doubles. Other data becomes text with the media type of JSON.
func ForProto(m wire.Message) *wire.Message {
	parts := make(wire.ContentParts, len(m.Parts))
	for i, part := range m.Parts {
		parts[i] = part
		raw, ok := part.Data().(json.RawMessage)
		if !ok {
			continue
		}
		var object map[string]any
		if err := federation.DecodeJSON(raw, &object); err == nil && object != nil && isExact(raw) {
			parts[i] = wire.NewDataPart(object)
		} else {
			parts[i] = wire.NewTextPart(string(raw))
		}
		parts[i].MediaType = part.MediaType
	}
	m.Parts = parts
	return &m
}

// The value is valid JSON.
func isExact(value json.RawMessage) bool {
	tokens := json.NewDecoder(bytes.NewReader(value))
	tokens.UseNumber()
	for {
		token, err := tokens.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if number, ok := token.(json.Number); ok && !keepsDouble(number) {
			return false
		}
	}
}

func keepsDouble(n json.Number) bool {
	number, err := n.Float64()
	mantissa, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	return err == nil && len(digits) <= exactDigits && (number != 0 || digits == "")
}

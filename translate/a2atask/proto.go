package a2atask

import (
	"encoding/json"
	"strconv"
	"strings"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/federation"
)

// exactDigits is how many decimal digits a number of protocol buffers keeps: it is a double.
const exactDigits = 15

// ForProto returns a message as protocol buffers can carry it. The library encodes data only if it is
// an object, with numbers as doubles. Other data become text of the media type of JSON.
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

// isExact reports whether a double keeps each number of a value.
func isExact(value json.RawMessage) bool {
	text := strings.TrimLeft(string(value), " \t\r\n")
	switch {
	case strings.HasPrefix(text, "{"):
		var members map[string]json.RawMessage
		err := federation.DecodeJSON(value, &members)
		for _, each := range members {
			if !isExact(each) {
				return false
			}
		}
		return err == nil
	case strings.HasPrefix(text, "["):
		var items []json.RawMessage
		err := federation.DecodeJSON(value, &items)
		for _, each := range items {
			if !isExact(each) {
				return false
			}
		}
		return err == nil
	case strings.Trim(text[:1], "-0123456789") == "":
		number, err := strconv.ParseFloat(strings.TrimRight(text, " \t\r\n"), 64)
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
		return err == nil && len(digits) <= exactDigits && (number != 0 || digits == "")
	}
	return true
}

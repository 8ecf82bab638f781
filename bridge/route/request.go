package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// MaxBodyBytes bounds a JSON body. It leaves room for a context of 4 KiB, and a signed document
// that contains it again.
const MaxBodyBytes = 64 << 10

// Place is a part of a request.
type Place string

// Places of fields.
const (
	InPath   Place = "path"
	InQuery  Place = "query"
	InHeader Place = "header"
	InBody   Place = "body"
)

// Field is a field of the request of a route.
type Field struct {
	Place Place
	Name  string // parameter name, or media type of a body
	Type  reflect.Type
	Tag   reflect.StructTag
	Owner reflect.Type // struct that declares the field; nil if the request itself is a [Body]
	Field string

	index []int
}

type jsonBody interface {
	decode(from io.Reader, most int64, needed bool)
	encode() ([]byte, error)
}

// Fields returns the fields of a request type.
func Fields(in reflect.Type) []Field {
	body := reflect.TypeFor[jsonBody]()
	if reflect.PointerTo(in).Implements(body) {
		return []Field{{Place: InBody, Name: "application/json", Type: in}}
	}
	var all []Field
	for _, f := range reflect.VisibleFields(in) {
		field := Field{Type: f.Type, Tag: f.Tag, Owner: in, Field: f.Name, index: f.Index}
		if len(f.Index) > 1 {
			field.Owner = in.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		for _, place := range []Place{InPath, InQuery, InHeader, InBody} {
			if name, ok := f.Tag.Lookup(string(place)); ok {
				field.Place, field.Name = place, name
			}
		}
		if reflect.PointerTo(f.Type).Implements(body) {
			field.Place, field.Name = InBody, "application/json"
		}
		if field.Place != "" {
			all = append(all, field)
		}
	}
	return all
}

// Document returns the type of a JSON body, or nil for any other field.
func (f Field) Document() reflect.Type {
	if f.Place != InBody || f.Name != "application/json" {
		return nil
	}
	content, _ := f.Type.FieldByName("content") // of a [Body]
	return content.Type
}

// Optional reports whether a request may omit the body.
func (f Field) Optional() bool { return f.Tag.Get("optional") == "true" }

// A JSON body has at most `most` bytes.
func (f Field) read(into reflect.Value, request *http.Request, query url.Values, most int64) error {
	given := query[f.Name]
	if f.Place == InHeader {
		given = request.Header.Values(f.Name)
	}
	if text, ok := f.Tag.Lookup("default"); ok && len(given) == 0 {
		given = []string{text}
	}
	switch {
	case f.Place == InBody:
		if body, ok := reflect.TypeAssert[jsonBody](into.Addr()); ok {
			body.decode(request.Body, most, !f.Optional())
		} else {
			into.Set(reflect.ValueOf(request.Body))
		}
	case f.Place == InPath:
		text := request.PathValue(f.Name)
		if text == "" {
			return bridge.UsageProblem(f.Name + ": it is empty")
		}
		into.SetString(text)
	case len(given) == 0:
	case len(given) > 1:
		return bridge.UsageProblem(f.Name + ": want one value")
	case f.Type.Kind() == reflect.Bool:
		into.SetBool(true)
	case f.Type.Kind() == reflect.String:
		into.SetString(given[0])
	case f.Type == reflect.TypeFor[*bool]():
		yes, err := strconv.ParseBool(given[0])
		if err != nil {
			return bridge.UsageProblem(f.Name + ": want true or false")
		}
		into.Set(reflect.ValueOf(&yes))
	case f.Type == reflect.TypeFor[time.Time]():
		moment, err := time.Parse(time.RFC3339, given[0])
		if err != nil {
			return bridge.UsageProblem(f.Name + ": want a time of RFC 3339")
		}
		into.Set(reflect.ValueOf(moment))
	default:
		number, err := strconv.Atoi(given[0])
		if err != nil || f.outside(number) {
			return bridge.UsageProblem(fmt.Sprintf("%s is a number from %s to %s", f.Name, f.Tag.Get("minimum"), f.Tag.Get("maximum")))
		}
		if f.Type.Kind() == reflect.Int {
			into.SetInt(int64(number))
		} else {
			into.Set(reflect.ValueOf(&number))
		}
	}
	return nil
}

func (f Field) outside(number int) bool {
	least, err := strconv.Atoi(f.Tag.Get("minimum"))
	if err == nil && number < least {
		return true
	}
	most, err := strconv.Atoi(f.Tag.Get("maximum"))
	return err == nil && number > most
}

func (f Field) text(part reflect.Value) (string, bool) {
	if part.IsZero() {
		return "", false
	}
	if moment, ok := reflect.TypeAssert[time.Time](part); ok {
		return moment.Format(time.RFC3339Nano), true
	}
	return fmt.Sprint(reflect.Indirect(part).Interface()), true
}

func (f Field) content(part reflect.Value) (io.Reader, error) {
	if reader, ok := reflect.TypeAssert[io.Reader](part); ok {
		return reader, nil
	}
	whole := reflect.New(f.Type)
	whole.Elem().Set(part)
	body, _ := reflect.TypeAssert[jsonBody](whole) // Fields returns no other field
	text, err := body.encode()
	if err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return bytes.NewReader(text), nil
}

// Body is the JSON body of a request.
type Body[T any] struct {
	content T
	err     error
}

// JSON returns a body with the given content.
func JSON[T any](content T) Body[T] { return Body[T]{content: content} }

// Read returns the content. On a server, the error reports anything other than a single JSON value,
// and a repeated or unknown member.
func (b Body[T]) Read() (T, error) { return b.content, b.err }

func (b *Body[T]) encode() ([]byte, error) { return json.Marshal(b.content) }

func (b *Body[T]) decode(from io.Reader, most int64, needed bool) {
	var content T // a failed decoder may leave partial content
	if b.err = decode(from, most, needed, &content); b.err == nil {
		b.content = content
	}
}

func decode(from io.Reader, most int64, needed bool, into any) error {
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return bridge.UsageProblem("the body ended too early")
	case int64(len(text)) > most:
		return bridge.UsageProblem(fmt.Sprintf("a body is at most %d bytes", most))
	case len(text) == 0 && !needed:
		return nil
	}
	if err := federation.ExactJSON(text); err != nil {
		return bridge.UsageProblem("the body is not acceptable JSON: " + err.Error())
	}
	if err := federation.DecodeStrictJSON(text, into); err != nil {
		return bridge.UsageProblem("the body: " + err.Error())
	}
	return nil
}

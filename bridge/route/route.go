// Package route declares the routes of an HTTP API as typed values. A server registers a handler
// for each value, a client sends requests through it, and package openapi describes it.
//
// The request of a route is a struct. The tag of a field is its place in the request:
//
//	path:"name"        a wildcard of the path; the field is a string
//	query:"name"       a query parameter; a string, an int, a *bool, a time, or a bool, which any value sets
//	header:"Name"      a header, of the same types
//	body:"media/type"  the unchanged body; the field is an [io.Reader]
//
// A number may be an *int, to distinguish 0 from none. A field of type [Body] is a JSON body. It is
// required unless the field has the tag optional:"true". An embedded struct adds its fields. The
// comment of a field is its description in the OpenAPI document.
//
// Further tags limit the values of a field: minimum and maximum for a number, minLength, maxLength,
// pattern and enum for a text, and maxItems for a list. The tag default is the value of an absent
// number, schema names the [Text] of each value, and type lists the types of free-form JSON.
package route

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

const slowAnswer = 10 * time.Second

// Spec is a route without its types.
type Spec struct {
	ID      string // operation ID in the OpenAPI document
	Tag     string // group in the OpenAPI document
	Method  string
	Path    string           // relative to the prefix of the API, with wildcards of [http.ServeMux]
	Scope   federation.Scope // required of the caller
	Summary string

	Description string
	Public      bool      // requires no token
	Answers     []Success // nil for status 200; with several, an Out chooses one as [Statused]
	Media       string    // media type of a response other than JSON
	Slow        bool      // may exceed the timeouts of clients and servers
	Cached      bool      // responses have an ETag, and are not resent to clients with that tag
}

// Route is one route of an API with its request and response types. It has no methods, because the
// compiler would add them to the program for each route.
type Route[In, Out any] Spec

// Success is a success status.
type Success struct {
	Status  int
	Meaning string
	Headers []Header
}

// Header is a response header.
type Header struct{ Name, Meaning string }

// None is a response without a body.
type None struct{}

// Text is a named kind of text.
type Text struct {
	Name, Description string
	Pattern           string // for the whole text
	MaxLength         int    // in characters; 0 for no limit
}

// Headed is a response with its own headers.
type Headed interface{ AnswerHeader(header http.Header) }

// Statused is a response that chooses among the statuses of its route.
type Statused interface{ AnswerStatus() int }

// File is a response sent byte for byte. An [io.Closer] is closed afterwards.
type File struct{ Content io.Reader }

// Description is a route with its types as values, for registration and documentation.
type Description struct {
	Spec

	In, Out reflect.Type
}

// Describe returns the description of a route.
func Describe[In, Out any](r Route[In, Out]) Description {
	return Description{Spec(r), reflect.TypeFor[In](), reflect.TypeFor[Out]()}
}

// Pattern returns the method and the path.
func (s Spec) Pattern() string { return s.Method + " " + s.Path }

// Answer answers one request. A handler that writes the response itself returns nil.
type Answer func(w http.ResponseWriter, r *http.Request) (any, error)

// Answering returns an Answer that reads the request and calls serve.
func Answering[In, Out any](_ Route[In, Out], serve func(ctx context.Context, in In) (Out, error)) Answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		in, err := Read[In](r, MaxBodyBytes)
		if err != nil {
			return nil, err
		}
		return serve(r.Context(), in)
	}
}

// Handler returns a handler that writes the result of answer, and passes errors to fail.
func (s Spec) Handler(answer Answer, fail func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := answer(w, r)
		if err == nil && out != nil {
			err = s.write(w, r, out)
		}
		if err != nil {
			fail(w, r, err)
		}
	})
}

// Read returns the content of a request; most bounds a JSON body, in bytes. The error reports a
// malformed parameter. A malformed body is reported by [Body.Read], so that a handler checks the
// path first.
func Read[In any](request *http.Request, most int64) (In, error) {
	var in In
	err := read(reflect.ValueOf(&in).Elem(), request, most)
	return in, err
}

func read(into reflect.Value, request *http.Request, most int64) error {
	query := request.URL.Query()
	for _, f := range Fields(into.Type()) {
		if err := f.read(into.FieldByIndex(f.index), request, query, most); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) write(w http.ResponseWriter, r *http.Request, out any) error {
	if file, ok := out.(File); ok {
		if c, ok := file.Content.(io.Closer); ok {
			defer func() { _ = c.Close() }() // it was only read
		}
		w.Header().Set("Content-Type", s.Media)
		_, err := io.Copy(w, file.Content)
		return err
	}
	status := http.StatusOK
	if chosen, ok := out.(Statused); ok {
		status = chosen.AnswerStatus()
	} else if len(s.Answers) > 0 {
		status = s.Answers[0].Status
	}
	if out == (None{}) {
		w.WriteHeader(status)
		return nil
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(out); err != nil {
		return err
	}
	if s.Slow {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowAnswer)) // a writer without deadlines needs none
	}
	if s.Cached {
		tag := tagOf(text.Bytes())
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		w.Header().Set("ETag", tag)
	}
	if headed, ok := out.(Headed); ok {
		headed.AnswerHeader(w.Header())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := text.WriteTo(w)
	return err
}

// The document is followed by a newline.
func tagOf(text []byte) string {
	sum := sha256.Sum256(bytes.TrimSuffix(text, []byte("\n")))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// spec: RFC 9110 §13.1.2
func matches(ifNoneMatch, tag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		if candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/"); candidate == "*" || candidate == tag {
			return true
		}
	}
	return false
}

// NameError means that a name is not valid in a request path.
type NameError struct{ err error }

// Error implements error.
func (e *NameError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *NameError) Unwrap() error { return e.err }

// Request returns a client request to the API at a prefix of a base URL. The error is a
// [*NameError] for an invalid name.
func (s Spec) Request(ctx context.Context, base, prefix string, in any) (*http.Request, error) {
	value := reflect.ValueOf(in)
	names, query, header := map[string]string{}, url.Values{}, http.Header{}
	var body io.Reader
	var media string
	for _, f := range Fields(value.Type()) {
		part := value.FieldByIndex(f.index)
		switch f.Place {
		case InPath:
			names[f.Name] = part.String()
		case InQuery:
			if text, ok := f.text(part); ok {
				query.Set(f.Name, text)
			}
		case InHeader:
			if text, ok := f.text(part); ok {
				header.Set(f.Name, text)
			}
		case InBody:
			media = f.Name
			var err error
			if body, err = f.content(part); err != nil {
				return nil, err
			}
		}
	}
	path := federation.URLPath(strings.TrimSuffix(prefix, "/"))
	for segment := range strings.SplitSeq(s.Path, "/") {
		if name, ok := wildcard(segment); ok {
			segment = names[name]
		}
		path = path.Join(segment)
	}
	address, err := federation.JoinURL(base, path, query)
	if err != nil {
		return nil, &NameError{err}
	}
	request, err := http.NewRequestWithContext(ctx, s.Method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header = header
	if body != nil {
		request.Header.Set("Content-Type", media)
	}
	return request, nil
}

func wildcard(segment string) (name string, ok bool) {
	name, ok = strings.CutPrefix(segment, "{")
	return strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."), ok
}

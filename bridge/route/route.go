// Package route declares the routes of an HTTP API as typed values. A server registers a handler
// for each value, a client sends requests through it, and package openapi describes it.
//
// The request of a route is a struct. The tag of a field names its place in the request:
//
//	path:"name"        a wildcard of the path; the field is a string
//	query:"name"       a query parameter; a string, an int, a *bool, a time, or a bool, true for each value of the parameter
//	header:"Name"      a header, of the same types
//	body:"media/type"  the body as it is; the field is an [io.Reader]
//
// A number may be an *int, to distinguish 0 from none. A field of type [Body] is the body as JSON,
// which the tag optional:"true" does not require. An embedded struct adds its fields. The comment
// of a field describes it in the OpenAPI document.
//
// More tags limit the values of a field: minimum and maximum a number, minLength, maxLength, pattern
// and enum a text, and maxItems a list. The tag default has the value for an absent number. The tag
// schema names the [Text] of each value. The tag type lists the JSON types of free-form JSON.
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

// slowAnswer bounds the reading of a slow route's answer.
const slowAnswer = 10 * time.Second

// Spec is a route without its types.
type Spec struct {
	ID      string // ID of the operation in the OpenAPI document
	Tag     string // groups operations there
	Method  string
	Path    string           // below the prefix of the API, with the wildcards of [http.ServeMux]
	Scope   federation.Scope // the scope that a caller needs
	Summary string

	Description string
	Public      bool      // needs no token
	Answers     []Success // nil for status 200; an Out with several chooses one as a [Statused]
	Media       string    // media type of an answer other than JSON
	Slow        bool      // may take longer than the timeouts of clients and servers
	Cached      bool      // an answer has an ETag, and is not sent again to a client that has it
}

// Route is one route of an API: In is the request, and Out the answer. It has no methods, because
// the compiler would add them to the program for each route.
type Route[In, Out any] Spec

// Success is a status of success.
type Success struct {
	Status  int
	Meaning string
	Headers []Header
}

// Header is a header of an answer.
type Header struct{ Name, Meaning string }

// None is an answer without a body.
type None struct{}

// Text is a kind of texts with a name.
type Text struct {
	Name, Description string
	Pattern           string // a regular expression that matches the whole text
	MaxLength         int    // in characters; 0 for no limit
}

// Headed is an answer with headers of its own.
type Headed interface{ AnswerHeader(header http.Header) }

// Statused is an answer that chooses among the statuses of its route.
type Statused interface{ AnswerStatus() int }

// File is an answer, sent byte for byte. An [io.Closer] is closed after it.
type File struct{ Content io.Reader }

// Description is a route with its types as values, for registers and documents.
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

// Answer answers one request. A handler that writes the answer itself returns nil.
type Answer func(w http.ResponseWriter, r *http.Request) (any, error)

// Answering returns an answer that reads the request and calls serve.
func Answering[In, Out any](_ Route[In, Out], serve func(ctx context.Context, in In) (Out, error)) Answer {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		in, err := Read[In](r, MaxBodyBytes)
		if err != nil {
			return nil, err
		}
		return serve(r.Context(), in)
	}
}

// Handler returns a handler that writes the response of answer, and passes errors to fail.
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

// Read returns the content of a request, whose JSON body has at most some bytes. Its error is the
// problem of a malformed parameter. The error of a malformed body is that of [Body.Read], so that a
// handler checks the path first.
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
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowAnswer)) // a writer without deadlines has none
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

// tagOf returns the entity tag of a document and a newline.
func tagOf(text []byte) string {
	sum := sha256.Sum256(bytes.TrimSuffix(text, []byte("\n")))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// matches reports whether a client has an answer already.
//
// spec: RFC 9110 §13.1.2
func matches(ifNoneMatch, tag string) bool {
	for candidate := range strings.SplitSeq(ifNoneMatch, ",") {
		if candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/"); candidate == "*" || candidate == tag {
			return true
		}
	}
	return false
}

// NameError is the error for a name invalid in the path of a request.
type NameError struct{ err error }

// Error implements error.
func (e *NameError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *NameError) Unwrap() error { return e.err }

// Request returns the request of a client to the API at a prefix of a base. The error is a
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

// wildcard returns the name of a wildcard segment of a path, and false for any other segment.
func wildcard(segment string) (name string, ok bool) {
	name, ok = strings.CutPrefix(segment, "{")
	return strings.TrimSuffix(strings.TrimSuffix(name, "}"), "..."), ok
}

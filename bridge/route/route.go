// Package route declares the routes of an HTTP API as typed values. A server registers a handler
// for each value, a client sends requests through it, and package openapi describes it.
//
// The request of a route is a struct. The tag of a field names its place in the request:
//
//	path:"name"        a wildcard of the path; the field is a string
//	query:"name"       a query parameter; a string, an *int, or a bool, true for each value of the parameter
//	body:"media/type"  the body as it is; the field is an [io.Reader]
//
// The tags minimum and maximum bound a number. A field of type [Body] is the body as JSON. An
// embedded struct adds its fields. The comment of a field describes it in the OpenAPI document.
package route

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"baton/federation"
)

// slowAnswer is how long the client of a slow route may take to read the answer.
const slowAnswer = 10 * time.Second

// Spec is a route without its types.
type Spec struct {
	ID      string // of the operation in the OpenAPI document
	Tag     string // groups operations there
	Method  string
	Path    string           // below the prefix of the API, with the wildcards of [http.ServeMux]
	Scope   federation.Scope // the scope that a caller needs
	Summary string
	Answers []Success // nil for status 200; an Out with several chooses one as a [Statused]
	Media   string    // media type of a [File]; "" for JSON
	Slow    bool      // may take longer than the timeouts of clients and servers
}

// Route is one route of an API: In is the request, and Out the answer. It has no methods: the
// compiler would add all of them to the program for each route.
type Route[In, Out any] Spec

// Success is a status of success.
type Success struct {
	Status  int
	Meaning string
}

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
		in, err := Read[In](r)
		if err != nil {
			return nil, err
		}
		return serve(r.Context(), in)
	}
}

// Handler returns a handler that writes an answer, and its error with fail.
func (s Spec) Handler(answer Answer, fail func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := answer(w, r)
		if err == nil && out != nil {
			err = s.write(w, out)
		}
		if err != nil {
			fail(w, r, err)
		}
	})
}

// Read returns the content of a request. Its error is the problem of a malformed parameter. The
// error of a malformed body is that of [Body.Read], so that a handler checks the path first.
func Read[In any](request *http.Request) (In, error) {
	var in In
	err := read(reflect.ValueOf(&in).Elem(), request)
	return in, err
}

func read(into reflect.Value, request *http.Request) error {
	query := request.URL.Query()
	for _, f := range Fields(into.Type()) {
		if err := f.read(into.FieldByIndex(f.index), request, query); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) write(w http.ResponseWriter, out any) error {
	if file, ok := out.(File); ok {
		if c, ok := file.Content.(io.Closer); ok {
			defer func() { _ = c.Close() }() // it was only read
		}
		w.Header().Set("Content-Type", s.Media)
		_, err := io.Copy(w, file.Content)
		return err
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(out); err != nil {
		return err
	}
	if s.Slow {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowAnswer)) // a writer without deadlines has none
	}
	status := http.StatusOK
	if chosen, ok := out.(Statused); ok {
		status = chosen.AnswerStatus()
	} else if len(s.Answers) > 0 {
		status = s.Answers[0].Status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := text.WriteTo(w)
	return err
}

// NameError is the error for a name that the path of a request cannot have.
type NameError struct{ err error }

// Error implements error.
func (e *NameError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *NameError) Unwrap() error { return e.err }

// Request returns the request of a client to the API at a prefix of a base. The error is a
// [*NameError] for a name that no path can have.
func (s Spec) Request(ctx context.Context, base, prefix string, in any) (*http.Request, error) {
	value := reflect.ValueOf(in)
	names, query := map[string]string{}, url.Values{}
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

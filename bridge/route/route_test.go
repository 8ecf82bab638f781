package route_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/route"
)

type paging struct {
	Limit *int `query:"limit" minimum:"1" maximum:"9"`
}

type thing struct {
	Name string `json:"name"`
}

type change struct {
	Kind string `path:"kind"`
	Name string `path:"name"`
	Dry  bool   `query:"dry"`
	Text string `query:"text"`
	paging

	Body route.Body[thing]
}

// made is an answer with a status of its own.
type made struct{ Kind, Name, Text, Body string }

func (made) AnswerStatus() int { return http.StatusCreated }

func put() route.Route[change, made] {
	return route.Route[change, made]{Method: http.MethodPut, Path: "things/{kind}/{name...}"}
}

// serve answers requests for a change with their content.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	mux, r := http.NewServeMux(), put()
	answer := route.Answering(r, func(_ context.Context, in change) (made, error) {
		body, err := in.Body.Read()
		out := made{Kind: in.Kind, Name: in.Name, Text: in.Text, Body: body.Name}
		if in.Dry {
			out.Text += " dry"
		}
		if in.Limit != nil {
			out.Text += strings.Repeat("*", *in.Limit)
		}
		return out, err
	})
	mux.Handle(r.Method+" /v1/"+r.Path, route.Spec(r).Handler(answer, func(w http.ResponseWriter, _ *http.Request, err error) {
		p := bridge.ProblemOf(err)
		http.Error(w, p.Detail, p.Status)
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// answered returns the status and the body of an answer.
func answered(t *testing.T, request *http.Request) string {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Status + " " + strings.TrimSpace(string(text))
}

func TestRequestArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	server := serve(t)
	in := change{Kind: "a b", Name: "x/y?", Dry: true, Text: "&", paging: paging{Limit: new(2)}, Body: route.JSON(thing{Name: "z"})}
	request, err := route.Spec(put()).Request(t.Context(), server.URL, "/v1/", in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`201 Created {"Kind":"a b","Name":"x/y?","Text":"\u0026 dry**","Body":"z"}`, answered(t, request)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequestRefusesNamesThatNoPathHas(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", ".."} {
		_, err := route.Spec(put()).Request(t.Context(), "http://127.0.0.1:1", "/v1/", change{Kind: "a", Name: name})
		if _, ok := errors.AsType[*route.NameError](err); !ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHandlerRefusesMalformedRequests(t *testing.T) {
	t.Parallel()
	server := serve(t)
	for _, test := range []struct{ query, body, want string }{
		{"a/", `{}`, "400 Bad Request name: it is empty"},
		{"a/b?text=1&text=2", `{}`, "400 Bad Request text: want one value"},
		{"a/b?limit=0", `{}`, "400 Bad Request limit is a number from 1 to 9"},
		{"a/b?limit=10", `{}`, "400 Bad Request limit is a number from 1 to 9"},
		{"a/b?limit=x", `{}`, "400 Bad Request limit is a number from 1 to 9"},
		{"a/b", `{"Name":"x"}`, `400 Bad Request the body: json: unknown field "Name"`},
		{"a/b", `{"name":"x","name":"y"}`, `400 Bad Request the body is not acceptable JSON: duplicate member "name"`},
		{"a/b", `{"name":"` + strings.Repeat("x", 64<<10) + `"}`, "400 Bad Request a body is at most 65536 bytes"},
		{"a/b?dry=false", `{}`, `201 Created {"Kind":"a","Name":"b","Text":" dry","Body":""}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/v1/things/"+test.query, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if got := answered(t, request); got != test.want {
			t.Errorf("%s %.30s: got %q, want %q", test.query, test.body, got, test.want)
		}
	}
}

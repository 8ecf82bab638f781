package relay

import (
	"context"
	"net/http"
)

// HTTPClient sends requests to hosts that an operator named.
type HTTPClient interface {
	// Do sends a body, or none where it is nil, and returns the body and the header of an answer
	// with status 200. It blocks on the network. Its error wraps
	// [*federation.UnavailableError] for any other answer.
	Do(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, http.Header, error)
}

// HTTPSPoster is a [Poster] over an HTTP client.
type HTTPSPoster struct{ Client HTTPClient }

var _ Poster = HTTPSPoster{}

// Post implements [Poster].
func (p HTTPSPoster) Post(ctx context.Context, address string, e Envelope) (Envelope, error) {
	answer, header, err := p.Client.Do(ctx, http.MethodPost, address, e.Body, e.Header())
	return NewEnvelope(answer, header), err
}

// Get implements [Poster].
func (p HTTPSPoster) Get(ctx context.Context, address string) (Envelope, error) {
	answer, header, err := p.Client.Do(ctx, http.MethodGet, address, nil, nil)
	return NewEnvelope(answer, header), err
}

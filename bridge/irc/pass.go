package irc

import (
	"context"
	"errors"

	"baton/federation"
)

// Why [Pass] gets no answer.
var (
	errNotConnected = errors.New("not connected")
	errCut          = errors.New("connection lost before the other server had read the step")
)

// Unavailable returns the not-now of a link.
func Unavailable(link string, why error) error {
	return &federation.UnavailableError{What: "link " + link, Err: why}
}

// Disconnected returns the not-now of a link that has no session.
func Disconnected(link string) error { return Unavailable(link, errNotConnected) }

// NoPlace returns why a step is not written on a link: a refusal, unless the record could
// not tell.
func NoPlace(ev federation.Event, link string, err error) error {
	if err != nil {
		return err
	}
	return federation.Refuse(ev, federation.InvalidTarget, "no place of link "+link)
}

// Pass hands a row of a link's feed to the session that takes rows, and blocks until
// that has answered, which it returns: nil once the peer has proved that it read the
// row. The channel of answers has room for one; over is closed when the session ends.
//
// Where no answer comes its error is [Unavailable], and the row may have been written.
func Pass[Row any](ctx context.Context, link string, rows chan<- Row, row Row, answer <-chan error, over <-chan struct{}) error {
	select {
	case rows <- row:
	case <-over:
		return Disconnected(link)
	case <-ctx.Done():
		return Unavailable(link, ctx.Err())
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return Unavailable(link, ctx.Err())
	case <-over:
	}
	select {
	case err := <-answer: // it came with the end
		return err
	default:
		return Unavailable(link, errCut)
	}
}

package irc

import (
	"bufio"
	"bytes"
	"errors"
)

// ErrLineTooLong is returned by [ReadLine] for a line that is longer than the reader
// takes. It was read to its end, and the next one can be.
var ErrLineTooLong = errors.New("irc: line too long")

// ReadLine returns one line of at most maxBytes, with its end counted, and without it.
// It blocks until the line is there. What is longer is not kept. Other errors than
// [ErrLineTooLong] come from the reader.
func ReadLine(r *bufio.Reader, maxBytes int) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > maxBytes; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case long:
			return nil, ErrLineTooLong
		}
		return bytes.TrimRight(text, "\r\n"), nil
	}
}

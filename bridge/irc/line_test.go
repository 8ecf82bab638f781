package irc_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/irc"
)

func TestReadLine(t *testing.T) {
	const most = 40
	long := strings.Repeat("x", most)
	r := bufio.NewReaderSize(strings.NewReader("one\r\n\ntwo\n"+long+"\nthree\n"+long[:most-1]+"\nunfinished"), 16)
	for _, want := range []struct {
		text string
		err  error
	}{{"one", nil}, {"", nil}, {"two", nil}, {"", irc.ErrLineTooLong}, {"three", nil}, {long[:most-1], nil}, {"", io.EOF}} {
		if text, err := irc.ReadLine(r, most); string(text) != want.text || !errors.Is(err, want.err) {
			t.Errorf("read %q, %v; want %q, %v", text, err, want.text, want.err)
		}
	}
}

package federation_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

func TestJoinURLEscapesEachSegment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		base  string
		path  federation.URLPath
		query url.Values
		want  string
	}{
		{"https://a.test", "", nil, "https://a.test"},
		{"https://a.test/", "/x", nil, "https://a.test/x"},
		{"https://a.test:8443/sub", "/fed/v1", nil, "https://a.test:8443/sub/fed/v1"},
		{"http://[::1]:80", "x", nil, "http://[::1]:80/x"},
		{"https://a.test", federation.URLPath("/id").Join("did:web:b.test%3A1:x"), nil, "https://a.test/id/did:web:b.test%253A1:x"},
		{"https://a.test", federation.URLPath("/id").Join("../../api/presence"), nil, "https://a.test/id/..%2F..%2Fapi%2Fpresence"},
		{"https://a.test", federation.URLPath("/id").Join("a?b#c d\n", "e"), nil, "https://a.test/id/a%3Fb%23c%20d%0A/e"},
		{"https://a.test", "/id", url.Values{"handle": {"a&b=c#"}}, "https://a.test/id?handle=a%26b%3Dc%23"},
	} {
		if got, err := federation.JoinURL(test.base, test.path, test.query); err != nil || got != test.want {
			t.Errorf("%s + %s: %s, %v, want %s", test.base, test.path, got, err, test.want)
		}
	}
}

func TestJoinURLStaysBelowItsBase(t *testing.T) {
	t.Parallel()
	for _, path := range []federation.URLPath{
		"/", "/a/", "/a//b", "/..", "/a/../b", "/a/./b", "/%2e%2e/b", "/a/.%2E", "/a?b", "/a#b", "/a b", "/a\\b", "/a\r\nb", "/%zz",
		federation.URLPath("/a").Join(""), federation.URLPath("/a").Join("..", "b"), federation.URLPath("/a").Join("", "b"), federation.URLPath("/a").Join("."),
	} {
		if got, err := federation.JoinURL("https://a.test", path, nil); !errors.Is(err, federation.ErrURL) {
			t.Errorf("%q: %s, %v, want an error", path, got, err)
		}
	}
	for _, base := range []string{
		"", "a.test", "//a.test", "ftp://a.test", "https://", "https://:80", "https:a.test", "https://u@a.test", "https://u:p@a.test",
		"https://a.test?x", "https://a.test?", "https://a.test#x", "https://a.test/..", "https://a.test/%2e%2e/x", "https://a.test//x", "https://a .test",
		federation.BaseURL("a.test/x"), federation.BaseURL("u@a.test"), federation.BaseURL("a.test?x"), federation.BaseURL("a.test#x"), federation.BaseURL(""),
	} {
		if got, err := federation.JoinURL(base, "/x", nil); !errors.Is(err, federation.ErrURL) {
			t.Errorf("base %q: %s, %v, want an error", base, got, err)
		}
	}
}

func TestParseURLPathRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/federation/relay", "/api/federation/identity", "/a%20b"} {
		if got, err := federation.ParseURLPath(text); err != nil || string(got) != text {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "x", "//evil.test/x", "https://evil.test/x", "/x?y", "/x#y", "/../x", "/x/..", "/%2e%2e/x", "/x/", "/", "/x//y", "/x y", "/x\ny", "\\\\evil", "/\\evil", "/x%zz", "@evil",
	} {
		if got, err := federation.ParseURLPath(text); !errors.Is(err, federation.ErrURL) {
			t.Errorf("%q: %q, %v, want an error", text, got, err)
		}
	}
}

package federation

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrURL is wrapped by the errors of [CheckBaseURL], [ParseURLPath] and [JoinURL].
var ErrURL = errors.New("federation: not a URL that this program requests")

// URLPath is the escaped path of a URL below its base. Add external values only with [URLPath.Join] or
// [ParseURLPath].
type URLPath string

// Join appends escaped segments. [JoinURL] refuses the path if a segment is empty, "." or "..".
func (p URLPath) Join(segments ...string) URLPath {
	for _, segment := range segments {
		p += URLPath("/" + url.PathEscape(segment))
	}
	return p
}

// ParseURLPath reads a path published by another program. It refuses another host, a query, a fragment
// and dot segments.
func ParseURLPath(text string) (URLPath, error) {
	if !strings.HasPrefix(text, "/") {
		return "", fmt.Errorf("%w: path %q: want a slash first", ErrURL, text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%w: path %q: %w", ErrURL, text, errors.Unwrap(err))
	}
	if u.Host != "" || u.User != nil || u.EscapedPath() != text {
		return "", fmt.Errorf("%w: path %q: want a path and nothing else, in its usual spelling", ErrURL, text)
	}
	return URLPath(text), checkPath(text)
}

// BaseURL returns the HTTPS base of a host.
func BaseURL(host string) string { return (&url.URL{Scheme: "https", Host: host}).String() }

// CheckBaseURL accepts a base for [JoinURL]: http:// or https://, a host, and an optional path. It
// refuses a user, a query, a fragment and dot segments.
func CheckBaseURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrURL, errors.Unwrap(err))
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return fmt.Errorf("%w: %s: want http:// or https:// and a host", ErrURL, u.Redacted())
	case u.User != nil, strings.ContainsAny(text, `?#\`):
		return fmt.Errorf("%w: %s: want no user, no query and no fragment", ErrURL, u.Redacted())
	}
	return checkPath(strings.TrimSuffix(u.EscapedPath(), "/"))
}

// CheckOrigin accepts a base without a path, in canonical spelling.
func CheckOrigin(text string) error {
	if err := CheckBaseURL(text); err != nil {
		return err
	}
	if u, err := url.Parse(text); err != nil || u.Path != "" || u.String() != text {
		return fmt.Errorf("%w: %s: want a host in its usual spelling, and no path", ErrURL, text)
	}
	return nil
}

// JoinURL returns the address of a path and a query below a base. It builds every URL requested by this
// program; a test enforces that.
func JoinURL(base string, path URLPath, query url.Values) (string, error) {
	if err := CheckBaseURL(base); err != nil {
		return "", err
	}
	if err := checkPath(string(path)); err != nil {
		return "", err
	}
	address := strings.TrimSuffix(base, "/")
	if path != "" {
		address += "/" + strings.TrimPrefix(string(path), "/")
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address, nil
}

// IsBelow reports whether an address is below a path of a base.
func IsBelow(address, base string, path URLPath) bool {
	root, err := JoinURL(base, path, nil)
	return err == nil && strings.HasPrefix(address, root+"/")
}

func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name, err := url.PathUnescape(segment)
		switch {
		case err != nil, strings.ContainsAny(segment, "?#\\ ") || strings.ContainsFunc(segment, isControl):
			return fmt.Errorf("%w: path %q has a segment that is not escaped", ErrURL, path)
		case name == "", name == ".", name == "..":
			return fmt.Errorf("%w: path %q has an empty segment or a dot segment", ErrURL, path)
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Glob reports whether a text matches a pattern with * and ?. Its time is bounded by the product of
// their lengths.
func Glob(pattern, text string) bool {
	star, back := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, back = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			back++
			p, t = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

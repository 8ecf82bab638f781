package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

const (
	maxImportBytes = 1 << 20          // far above the longest published list
	importTimeout  = 30 * time.Second // for the whole list
)

// ErrPlainList is the error for a peer list at an address without TLS.
var ErrPlainList = errors.New("a list decides what is refused: want https://")

// PeerLine is one line of a list of peers.
type PeerLine struct {
	Number       int
	Domain, Mode string
}

// ImportPeers reads a list of peers from its address or file, and checks every line with a dry run.
// It then sets the modes, unless a dry run was requested.
func (c *Client) ImportPeers(ctx context.Context, from string, act admin.Act) ([]admin.Peer, error) {
	text, err := readPeerList(ctx, from)
	if err != nil {
		return nil, err
	}
	lines, err := ParsePeerList(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	set := []admin.Peer{}
	for _, dry := range slices.Compact([]bool{true, act.DryRun}) {
		act.DryRun, set = dry, set[:0]
		for _, line := range lines {
			peer, err := Call(ctx, c, admin.SetPeerMode, admin.PeerMode{Name: line.Domain, Body: route.JSON(admin.Mode{Act: act, Mode: line.Mode, New: true})})
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %s: %w", from, line.Number, line.Domain, err)
			}
			set = append(set, peer)
		}
	}
	return set, nil
}

func readPeerList(ctx context.Context, from string) (string, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		f, err := os.Open(from) //nolint:gosec // G304: the operator names it
		if err != nil {
			return "", fmt.Errorf("read list: %w", err)
		}
		defer f.Close()
		return readBounded(f)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" && u.Hostname() != "::1") {
		return "", ErrPlainList
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("read list: %w", err)
	}
	answer, err := (&http.Client{Timeout: importTimeout}).Do(request) // the operator chose the address
	if err != nil {
		return "", &federation.UnavailableError{What: "list: " + err.Error()}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read list: %s answers %s", u.Host, answer.Status)
	}
	return readBounded(answer.Body)
}

func readBounded(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxImportBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read list: %w", err)
	case len(text) > maxImportBytes:
		return "", fmt.Errorf("read list: it is longer than %d bytes", maxImportBytes)
	}
	return string(text), nil
}

// ParsePeerList reads a domain and a mode from each line. Its error names the first invalid line.
func ParsePeerList(text string) ([]PeerLine, error) {
	var lines []PeerLine
	seen := map[string]int{}
	scanner := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		content, _, _ := strings.Cut(scanner.Text(), "#")
		fields := strings.Fields(content)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 || !slices.Contains([]string{"allow", "limit", "hold", "block"}, fields[1]) {
			return nil, fmt.Errorf("line %d: want a domain and allow, limit, hold or block", n)
		}
		domain := strings.ToLower(fields[0])
		if first, twice := seen[domain]; twice {
			return nil, fmt.Errorf("line %d: %s is already in line %d", n, domain, first)
		}
		seen[domain] = n
		lines = append(lines, PeerLine{n, domain, fields[1]})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return lines, nil
}

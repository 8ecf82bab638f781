package main

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

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// Bounds of a list of peers.
const (
	maxImportBytes = 1 << 20          // far above the longest published list
	importTimeout  = 30 * time.Second // for the whole list
)

// peerImport sets the modes of the peers of a list.
type peerImport struct {
	changeFlags

	URL string `arg:"" help:"Where the list is: https://, http:// on this machine, or a file."`
}

// Help says how a list looks, with an example.
func (peerImport) Help() string {
	return `Reads a list with one domain and one mode a line, such as "spam.example block", and sets the mode of each. Empty
lines and what follows a # are comments. Every line is checked before the first mode is set. A domain that is
not known yet is taken for a registry.

Example:

	baton peer import https://lists.example/baton.txt --dry-run`
}

// peerLine is one line of a list.
type peerLine struct {
	n            int
	domain, mode string
}

// Run checks every line with a dry run, and then sets the modes.
func (cmd peerImport) Run(ctx context.Context, c *cli, streams std) error {
	text, err := readPeerList(ctx, cmd.URL)
	if err != nil {
		return err
	}
	lines, err := parsePeerList(text)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.URL, err)
	}
	gateway, err := c.client()
	if err != nil {
		return err
	}
	act := cmd.act()
	if act.Reason == "" {
		act.Reason = "imported from " + cmd.URL
	}
	set := []contract.Peer{}
	for _, dry := range slices.Compact([]bool{true, cmd.DryRun}) {
		act.DryRun, set = dry, set[:0]
		for _, line := range lines {
			peer, err := setPeerMode(ctx, gateway, line, act)
			if err != nil {
				return fmt.Errorf("%s: line %d: %s: %w", cmd.URL, line.n, line.domain, err)
			}
			set = append(set, peer)
		}
	}
	if c.JSON {
		return printJSON(streams, contract.Page[contract.Peer]{Items: set})
	}
	for _, peer := range set {
		fmt.Fprintln(streams.out, cmd.said(peer.Name+": "+peer.Mode))
	}
	return nil
}

// setPeerMode sets the mode of a peer, known or not.
func setPeerMode(ctx context.Context, gateway *client.Client, line peerLine, act contract.Act) (contract.Peer, error) {
	return client.Ask[contract.Peer](gateway, func(api *contract.Client) (*http.Response, error) {
		return api.SetPeerMode(ctx, line.domain, contract.Mode{Act: act, Mode: line.mode, New: true})
	})
}

// readPeerList reads a list from its address or file.
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
		return "", &usageError{errors.New("a list decides what is refused: want https://")}
	}
	ctx, stop := context.WithTimeout(ctx, importTimeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("read list: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
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

// parsePeerList reads a domain and a mode from each line. Its error names the first line that is
// neither that nor a comment.
func parsePeerList(text string) ([]peerLine, error) {
	var lines []peerLine
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
			return nil, fmt.Errorf("line %d: %s is in line %d already", n, domain, first)
		}
		seen[domain] = n
		lines = append(lines, peerLine{n, domain, fields[1]})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return lines, nil
}

package identity

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
)

// signingKeysPath is where a freeq server tells keys, each below its DID.
//
// spec: freeq-signing "Key lookup across servers"
const signingKeysPath federation.URLPath = "/api/v1/signing-keys"

// askPeer asks the server behind a link for a key that is unknown here, and puts
// it on record. What it answers counts for what comes through that link alone: it
// could bring such a step in any case, and gains no say about steps of other links.
//
// A nil error means that there was no server to ask, or that the answer is on record.
//
// spec: freeq-signing "Key lookup across servers"
func (s *KeySource) askPeer(ctx context.Context, q federation.KeyQuery, document federation.Document, now time.Time) error {
	address, ok := s.peer(q.Link)
	own := document.DID != "" && document.Source == "" && q.DID.Method() == "web"
	if !ok || own || s.cfg.Ours != nil && s.cfg.Ours(ctx, q.DID) {
		return nil // no server knows more of this gateway's own DIDs than it does
	}
	if s.offline {
		return notAtHand(q.DID)
	}
	path := strings.ReplaceAll(string(signingKeysPath.Join(string(q.DID), q.KeyID)), ":", "%3A") // freeq servers escape colons too
	asked, err := federation.JoinURL(address, federation.URLPath(path), nil)
	if err != nil {
		return err
	}
	body, err := s.fetcher.Get(ctx, asked)
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := parsePeerKey(body, q.KeyID)
	if err != nil {
		return fmt.Errorf("read key from %s: %w", address, err)
	}
	return s.Learn(ctx, federation.KeyReport{
		DID: q.DID, Origin: federation.PeerKey, Via: q.Link, At: now, Keys: []federation.ReportedKey{{Public: key}},
	})
}

func (s *KeySource) peer(link string) (string, bool) {
	if s.cfg.Peer == nil {
		return "", false
	}
	return s.cfg.Peer(link)
}

// parsePeerKey reads the answer of a key server, which must be the key that was
// asked for.
func parsePeerKey(body []byte, keyID string) (ed25519.PublicKey, error) {
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	encoded := text(members["public_key"])
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != encoded {
		return nil, errors.New("public_key is not base64url")
	}
	key, err := federation.ParsePublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("read public_key: %w", err)
	}
	if federation.KeyID(key) != keyID {
		return nil, fmt.Errorf("it is key %s", federation.KeyID(key))
	}
	return key, nil
}

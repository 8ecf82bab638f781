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

// signingKeysPath is the path below which a freeq server serves the keys of DIDs.
//
// spec: freeq-signing "Key lookup across servers"
const signingKeysPath federation.URLPath = "/api/v1/signing-keys"

// askPeer asks the server behind a link for an unknown key, and records the answer. The key counts for
// steps that come through that link alone, so that a server cannot speak for users of other servers.
//
// A nil error means that the answer is on record, or that there is no server to ask.
//
// spec: freeq-signing "Key lookup across servers"
func (s *KeySource) askPeer(ctx context.Context, q federation.KeyQuery, document federation.Document, now time.Time) error {
	address, ok := s.peer(q.Link)
	own := document.DID != "" && document.Source == "" && q.DID.Method() == "web"
	if !ok || own || s.cfg.Ours != nil && s.cfg.Ours(ctx, q.DID) {
		return nil // this gateway itself has the keys of the DIDs that it keeps
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

// parsePeerKey reads the answer of a key server. A key with another id is an error.
func parsePeerKey(body []byte, keyID string) (ed25519.PublicKey, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &members); err != nil {
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

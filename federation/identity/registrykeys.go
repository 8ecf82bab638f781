package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"baton/federation"
)

// ParseRegistryKeys reads the identity of an agent as its AIRC registry serves it. It returns all keys
// that the agent ever had, each with the time from which it no longer signs. A pending key signs. A key
// that was revoked at an unknown time counts as revoked now.
//
// spec: airc-v0.1.1 §5
func ParseRegistryKeys(body []byte, now time.Time) ([]federation.ReportedKey, error) {
	if err := checkJSON(body); err != nil {
		return nil, fmt.Errorf("parse identity: %w", err)
	}
	var identity map[string]json.RawMessage
	if err := json.Unmarshal(body, &identity); err != nil {
		return nil, fmt.Errorf("parse identity: %w", err)
	}
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(identity["keys"], &items); err != nil {
		return nil, fmt.Errorf("parse identity: read keys: %w", err)
	}
	if len(items) > maxKeys {
		return nil, fmt.Errorf("parse identity: more than %d keys", maxKeys)
	}
	keys := make([]federation.ReportedKey, 0, len(items))
	for _, item := range items {
		key, err := parseRegistryKey(item, now)
		if err != nil {
			return nil, fmt.Errorf("parse identity: key %q: %w", text(item["kid"]), err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func parseRegistryKey(item map[string]json.RawMessage, now time.Time) (federation.ReportedKey, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text(item["publicKey"]))
	if err != nil {
		return federation.ReportedKey{}, errors.New("publicKey is not base64url")
	}
	public, err := federation.ParsePublicKey(raw)
	if err != nil {
		return federation.ReportedKey{}, fmt.Errorf("read publicKey: %w", err)
	}
	key := federation.ReportedKey{Public: public}
	var member string
	switch status := text(item["status"]); status {
	case "active", "pending":
		member = "expiresAt"
	case "expired":
		member, key.Until = "expiresAt", now
	case "revoked":
		member, key.Until = "revokedAt", now
	default:
		return federation.ReportedKey{}, fmt.Errorf("the status %q is unknown", status)
	}
	stated, err := parseUnix(item[member])
	if err != nil {
		return federation.ReportedKey{}, fmt.Errorf("%s: %w", member, err)
	}
	if !stated.IsZero() && (key.Until.IsZero() || stated.Before(key.Until)) {
		key.Until = stated
	}
	return key, nil
}

// parseUnix reads a time in whole seconds. It returns the zero time for null and for no value.
func parseUnix(value json.RawMessage) (time.Time, error) {
	if len(value) == 0 || string(value) == "null" {
		return time.Time{}, nil
	}
	var seconds int64
	if err := json.Unmarshal(value, &seconds); err != nil || seconds <= 0 {
		return time.Time{}, errors.New("want seconds since 1970")
	}
	return time.Unix(seconds, 0).UTC(), nil
}

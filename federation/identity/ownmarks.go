package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"baton/federation"
)

// The secrets of a keyring beside the own keys of the gateway.
const (
	KeptSecret  KeyName = keptFile  // all kept keys are derived from it
	TokenSecret KeyName = tokenFile // makes session tokens
)

// markInfo separates the fingerprint of a secret from the keys that are derived from it.
const markInfo = "baton key mark v1"

// markedNames are the keys whose loss stops a start.
func markedNames() []KeyName { return []KeyName{KeptSecret, RegistryKey, ServerKey, TokenSecret} }

// markSecret returns the fingerprint of a secret, which does not reveal the secret.
func markSecret(secret []byte) string {
	sum := hmac.New(sha256.New, secret)
	_, _ = sum.Write([]byte(markInfo)) // never fails
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Marks returns the marks of the keys in a keyring, for the record.
func (k *Keyring) Marks(now time.Time) []federation.KeyMark {
	marks := []federation.KeyMark{
		{Name: keptFile, Fingerprint: markSecret(k.kept), Since: now}, {Name: tokenFile, Fingerprint: markSecret(k.token), Since: now},
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, name := range []KeyName{RegistryKey, ServerKey} {
		marks = append(marks, federation.KeyMark{Name: string(name), Fingerprint: federation.KeyID(k.own[name].Public), Since: now})
	}
	return marks
}

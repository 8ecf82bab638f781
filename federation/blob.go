package federation

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// BlobPath is the path of blobs below the public address of a gateway.
const BlobPath = "/blob/cap/"

// UnclaimedBlob is the lifetime of a blob without a filed step. It exceeds the longest deferral.
const UnclaimedBlob = 48 * time.Hour

// MaxBlobBytes is the default limit of a blob. Whole blobs are held in memory.
const MaxBlobBytes = 64 << 20

// ErrBlobTooLarge is returned for content that exceeds the limit of one blob.
var ErrBlobTooLarge = errors.New("federation: too large for one blob")

// ErrBlobQuota is returned by [Blobs.KeepBlob] if the owner has no quota left.
var ErrBlobQuota = errors.New("federation: too much is stored for this DID")

const capabilityBytes = 16

// Capability is the name of a blob: 128 random bits as base64url. It grants read access to any bearer.
type Capability string

// NewCapability returns a new capability, or the error of random.
func NewCapability(random io.Reader) (Capability, error) {
	var b [capabilityBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("name a blob: %w", err)
	}
	return Capability(base64.RawURLEncoding.EncodeToString(b[:])), nil
}

// ParseCapability accepts only the canonical spelling.
func ParseCapability(text string) (Capability, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != capabilityBytes {
		return "", errors.New("a blob is named by 22 characters of base64url")
	}
	return Capability(text), nil
}

// CapabilityIn returns the capability in a context that is the blob address of any gateway, or "".
func CapabilityIn(text string) Capability {
	if !strings.Contains(text, BlobPath) {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	name, isBlob := strings.CutPrefix(u.Path, BlobPath)
	capability, err := ParseCapability(name)
	if !isBlob || err != nil {
		return ""
	}
	return capability
}

// Blob is content stored outside the step that refers to it.
type Blob struct {
	Capability Capability
	Digest     [32]byte
	Owner      DID // charged for it
	Content    []byte
	Stored     time.Time
	Expires    time.Time // deletion time; zero while a step refers to it
}

// NewBlob returns a blob with a new capability.
func NewBlob(owner DID, content []byte, random io.Reader, now time.Time) (Blob, error) {
	capability, err := NewCapability(random)
	return Blob{
		Capability: capability, Digest: sha256.Sum256(content), Owner: owner, Content: content,
		Stored: now, Expires: now.Add(UnclaimedBlob),
	}, err
}

// URL returns the address of a blob, below the public address of its gateway.
func (b Blob) URL(publicURL string) string { return publicURL + BlobPath + string(b.Capability) }

// Hash returns the hash of a blob in the form used in steps.
func (b Blob) Hash() string { return "sha256:" + hex.EncodeToString(b.Digest[:]) }

// InlineContext reports whether a context is JSON itself, not a reference.
func InlineContext(text string) bool {
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// Blobs stores the content that steps refer to. [store.Record] documents the methods. A filed step
// whose context is a blob address claims the blob, as may an [Effect]. A claimed blob is kept as long
// as its handoff.
type Blobs interface {
	// KeepBlob stores a blob once per owner, handoff and content, and returns the first one. It claims
	// the blob at once if the handoff is on record. It returns [ErrBlobQuota] if the owner's blobs
	// would exceed limit bytes in total; 0 means no limit.
	KeepBlob(ctx context.Context, b Blob, of HandoffID, limit int64) (Blob, error)
	// Blob returns an unexpired blob, or [ErrNotFound].
	Blob(ctx context.Context, capability Capability, now time.Time) (Blob, error)
	// PruneBlobs deletes up to limit blobs that expired at or before a given time.
	PruneBlobs(ctx context.Context, before time.Time, limit int) (pruned int, err error)
}

func capabilityMarks() []string { return []string{BlobPath, "?k="} }

// MaskCapabilities replaces the capabilities in the blob addresses of a text, for logs and their
// readers.
func MaskCapabilities(text string) string {
	for _, mark := range capabilityMarks() {
		if !strings.Contains(text, mark) {
			continue
		}
		parts := strings.Split(text, mark)
		for i, part := range parts[1:] {
			parts[i+1] = "…" + strings.TrimLeft(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_%")
		}
		text = strings.Join(parts, mark)
	}
	return text
}

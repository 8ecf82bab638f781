package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/baton-gateway/baton/federation"
)

// The directory cannot forge operations. An inconsistent log is evidence against the directory and not
// the DID, so the error counts as an outage.
func (d *Directory) fetchPLC(ctx context.Context, did federation.DID) (federation.Document, error) {
	if d.plc == "" {
		return federation.Document{}, unavailable("did:plc", 0, errors.New("no directory is configured"))
	}
	if !isPLC(did) {
		return federation.Document{}, errNoPLC
	}
	address, err := federation.JoinURL(d.plc, federation.URLPath("").Join(string(did), "log", "audit"), nil)
	if err != nil {
		return federation.Document{}, err
	}
	body, err := d.fetcher.Get(ctx, address)
	if err != nil {
		return federation.Document{}, err
	}
	current, err := readPLCLog(did, body)
	if err != nil {
		return federation.Document{}, unavailable("did:plc directory", 0, fmt.Errorf("the log is invalid: %w", err))
	}
	if current.kind == plcTombstone {
		return federation.Document{}, errors.New("its owner has deactivated it")
	}
	// the log proves itself, from any directory
	document := federation.Document{DID: did, Source: "did:plc", Mailbox: current.mailbox}
	for _, name := range slices.Sorted(maps.Keys(current.methods)) {
		key, err := ParsePublicKeyDID(federation.DID(current.methods[name]))
		addKey(&document, method{id: string(did) + "#" + name, key: key, err: err})
	}
	return document, nil
}

var errNoPLC = errors.New("not 24 characters of base32 after the method")

func isPLC(did federation.DID) bool {
	id, ok := strings.CutPrefix(string(did), plcPrefix)
	return ok && len(id) == plcIDBytes && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

type plcEntry struct {
	did       string
	cid       string
	nullified bool
	created   time.Time
	operation json.RawMessage
}

func parsePLCEntries(body []byte) ([]plcEntry, error) {
	var items []map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &items); err != nil {
		return nil, err
	}
	entries := make([]plcEntry, 0, len(items))
	for _, item := range items {
		created, err := time.Parse(time.RFC3339Nano, text(item["createdAt"]))
		if err != nil {
			return nil, fmt.Errorf("read createdAt: %w", err)
		}
		nullified := string(item["nullified"])
		if nullified != "true" && nullified != "false" {
			return nil, errors.New("nullified is neither true nor false")
		}
		entries = append(entries, plcEntry{
			did: text(item["did"]), cid: text(item["cid"]), nullified: nullified == "true",
			created: created, operation: item["operation"],
		})
	}
	return entries, nil
}

// Within this time, a key of higher rank can undo an operation.
//
// spec: did-plc "Key Rotation & Account Recovery"
const recoveryWindow = 72 * time.Hour

const (
	plcPrefix  = "did:plc:"
	plcIDBytes = 24
)

// Effective operations, oldest first.
type plcLog struct {
	inForce   []plcOperation
	nullified map[string]bool // by CID
}

// The DID is the hash of the first operation. Each other operation is signed by a rotation key of the
// preceding one. If the preceding one is not the last one, the operations in between are undone. This
// requires a key of higher rank, within [recoveryWindow].
//
// spec: did-plc "Operation serialization, signing and validation"
func readPLCLog(did federation.DID, body []byte) (plcOperation, error) {
	entries, err := parsePLCEntries(body)
	if err != nil {
		return plcOperation{}, err
	}
	if len(entries) == 0 {
		return plcOperation{}, errors.New("it is empty")
	}
	log := plcLog{nullified: map[string]bool{}}
	var latest time.Time
	for n, entry := range entries {
		o, err := parsePLCOperation(entry.operation)
		switch {
		case err != nil:
		case entry.did != string(did):
			err = fmt.Errorf("it is of %q", entry.did)
		case entry.cid != o.cid:
			err = fmt.Errorf("its CID is not %q", entry.cid)
		case entry.created.Before(latest):
			err = errors.New("it is older than the one before")
		default:
			o.created, latest = entry.created, entry.created
			err = log.add(did, o)
		}
		if err != nil {
			return plcOperation{}, fmt.Errorf("operation %d: %w", n, err)
		}
	}
	for n, entry := range entries {
		if entry.nullified != log.nullified[entry.cid] {
			return plcOperation{}, fmt.Errorf("operation %d: nullified is %t", n, entry.nullified)
		}
	}
	return log.inForce[len(log.inForce)-1], nil
}

func (l *plcLog) add(did federation.DID, o plcOperation) error {
	if len(l.inForce) == 0 {
		if err := checkGenesis(did, o); err != nil {
			return err
		}
		l.inForce = []plcOperation{o}
		return nil
	}
	at := slices.IndexFunc(l.inForce, func(s plcOperation) bool { return s.cid == o.prev })
	if at < 0 {
		return errors.New("it follows an operation that is not in force")
	}
	before, undone := l.inForce[at], l.inForce[at+1:]
	keys := before.rotation
	if before.kind == plcTombstone {
		return errors.New("it follows a tombstone")
	}
	if len(undone) > 0 {
		if o.created.Sub(undone[0].created) > recoveryWindow {
			return errors.New("it replaces an operation that is too old")
		}
		keys = keys[:undone[0].signer(keys)] // keys of higher rank
	}
	if o.signer(keys) == len(keys) {
		return errors.New("no authorized key signed it")
	}
	for _, u := range undone {
		l.nullified[u.cid] = true
	}
	l.inForce = append(slices.Clone(l.inForce[:at+1]), o)
	return nil
}

func checkGenesis(did federation.DID, o plcOperation) error {
	id := strings.ToLower(base32.StdEncoding.EncodeToString(o.digest[:]))[:plcIDBytes]
	switch {
	case o.prev != "" || o.kind == plcTombstone:
		return errors.New("it is not a genesis operation")
	case plcPrefix+id != string(did):
		return fmt.Errorf("it makes the DID %s%s", plcPrefix, id)
	case o.signer(o.rotation) == len(o.rotation):
		return errors.New("none of its keys has signed it")
	}
	return nil
}

// The result is the index of the signing key, or the number of keys. An operation is identified by its
// bytes with the signature, so only one signature counts.
//
// spec: did-plc "Operation serialization, signing and validation"
func (o plcOperation) signer(keys []federation.PublicKey) int {
	for i, key := range keys {
		if verifyECDSA(key, o.unsigned, o.signature) && hasLowS(key, o.signature) {
			return i
		}
	}
	return len(keys)
}

// CID version 1, in base32.
//
// spec: multiformats cid "CIDv1"
func cidOf(digest [sha256.Size]byte) string {
	const header = "\x01\x71\x12\x20" // version, dag-cbor, sha2-256, 32 bytes
	return "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append([]byte(header), digest[:]...)))
}

// The first kind is for the oldest DIDs, which have exactly two keys.
const (
	plcCreate    = "create"
	plcUpdate    = "plc_operation"
	plcTombstone = "plc_tombstone"
)

// The specification allows five rotation keys.
const maxRotationKeys = 10

type plcOperation struct {
	kind      string
	prev      string // CID of the previous operation, or ""
	cid       string
	digest    [sha256.Size]byte
	created   time.Time // by the directory's clock
	rotation  []federation.PublicKey
	methods   map[string]string // did:key by name
	mailbox   string            // see [mailboxService]
	unsigned  []byte
	signature []byte
}

// Unknown members are signed, and otherwise ignored.
//
// spec: did-plc "Operation Data Structures"
func parsePLCOperation(body json.RawMessage) (plcOperation, error) {
	var members map[string]any
	if err := federation.DecodeJSON(body, &members); err != nil {
		return plcOperation{}, err
	}
	o := plcOperation{methods: map[string]string{}}
	sig, _ := members["sig"].(string)
	var err error
	o.signature, err = base64.RawURLEncoding.DecodeString(sig)
	if err != nil || len(o.signature) != ecdsaBytes || base64.RawURLEncoding.EncodeToString(o.signature) != sig {
		return plcOperation{}, errors.New("want 64 bytes of base64url in sig")
	}
	signed, err := encodeDAG(members)
	if err != nil {
		return plcOperation{}, err
	}
	delete(members, "sig")
	if o.unsigned, err = encodeDAG(members); err != nil {
		return plcOperation{}, err
	}
	o.digest = sha256.Sum256(signed)
	o.cid = cidOf(o.digest)
	return o.read(members)
}

func (o plcOperation) read(members map[string]any) (plcOperation, error) {
	var known bool
	if o.prev, known = members["prev"].(string); !known && members["prev"] != nil {
		return plcOperation{}, errors.New("prev is neither a string nor null")
	}
	o.kind, _ = members["type"].(string)
	var rotation []any
	switch o.kind {
	case plcCreate:
		rotation = []any{members["recoveryKey"], members["signingKey"]}
		o.methods["atproto"], _ = members["signingKey"].(string)
	case plcUpdate:
		rotation, _ = members["rotationKeys"].([]any)
		methods, _ := members["verificationMethods"].(map[string]any)
		for name, value := range methods {
			o.methods[name], _ = value.(string)
		}
		services, _ := members["services"].(map[string]any)
		o.mailbox = plcMailbox(services)
	case plcTombstone:
		return o, nil
	default:
		return plcOperation{}, fmt.Errorf("the type %q is unknown", o.kind)
	}
	if len(rotation) > maxRotationKeys {
		return plcOperation{}, fmt.Errorf("more than %d rotation keys", maxRotationKeys)
	}
	for _, value := range rotation {
		did, _ := value.(string)
		key, err := ParsePublicKeyDID(federation.DID(did))
		if err != nil {
			return plcOperation{}, fmt.Errorf("read rotation key: %w", err)
		}
		o.rotation = append(o.rotation, key)
	}
	return o, nil
}

// encodeDAG accepts strings, lists, objects and null. Numbers have several encodings, and are not used.
//
// spec: ipld dag-cbor "Strictness"
func encodeDAG(value any) ([]byte, error) {
	if err := checkDAG(value); err != nil {
		return nil, err
	}
	mode, err := cbor.CanonicalEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	return mode.Marshal(value)
}

func checkDAG(value any) error {
	switch v := value.(type) {
	case nil, string:
		return nil
	case []any:
		for _, item := range v {
			if err := checkDAG(item); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, item := range v {
			if err := checkDAG(item); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("an operation cannot contain a %T", value)
}

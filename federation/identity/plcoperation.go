package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"baton/federation"
)

// The kinds of operations. The first kind opens the oldest DIDs, and names exactly two keys.
const (
	plcCreate    = "create"
	plcUpdate    = "plc_operation"
	plcTombstone = "plc_tombstone"
)

// maxRotationKeys bounds the signatures that are tried on one operation. The method
// allows five.
const maxRotationKeys = 10

// plcOperation is one signed operation.
type plcOperation struct {
	kind      string
	prev      string // CID of the one that it follows; empty for the first
	cid       string
	digest    [sha256.Size]byte // of the signed operation
	created   time.Time         // by the clock of the directory
	rotation  []federation.PublicKey
	methods   map[string]string // did:key by name
	mailbox   string            // see [mailboxService]
	unsigned  []byte            // what is signed
	signature []byte
}

// parsePLCOperation reads an operation. Unknown members are part of the signed bytes, and ignored
// otherwise.
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

// read fills in the operation from its members.
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

// encodeDAG writes a JSON value as DAG-CBOR: strings, lists, objects and null. Operations have no
// numbers, which have several encodings.
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
	return fmt.Errorf("an operation has no place for %T", value)
}

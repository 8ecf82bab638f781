package signing

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"

	"github.com/baton-gateway/baton/federation"
)

// The forms signed by AIRC clients, besides [Message]. A message does not contain the name of its
// form; see [Match].

// Relay is the scheme of a message between registries, signed by the origin.
//
// spec: airc-v0.2 "Federation relay"
func Relay() Scheme {
	return Scheme{Name: "airc-relay", Document: canonicalWithout("origin_registry_signature"), Encoding: withAlgorithm()}
}

// Challenge is the scheme of a registration. Its message is the text of the challenge.
//
// spec: airc-v0.1.1 §5.3
func Challenge() Scheme {
	return Scheme{Name: "airc-challenge", Document: asGiven, Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// DecodedChallenge is [Challenge] over the decoded bytes of the text.
func DecodedChallenge() Scheme {
	return Scheme{Name: "airc-challenge-bytes", Document: decodedText, Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// Rotation is the scheme of a request for another key, signed with the old key. The new key may
// sign the same document, to prove that the agent has it.
//
// spec: airc-v0.1.1 §5.4; airc-shapes "Requests"
func Rotation() Scheme {
	return Scheme{Name: "airc-rotate", Document: canonicalWithout("signature", "newKeySignature"), Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// BareRotation is [Rotation] over only the text of the new key.
func BareRotation() Scheme {
	return Scheme{Name: "airc-rotate-key", Document: newPublicKey, Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// Revocation is the scheme of a request to revoke a key.
//
// spec: airc-v0.1.1 §5.5
func Revocation() Scheme {
	return Scheme{Name: "airc-revoke", Document: canonicalWithout("signature"), Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// LegacyMessage is the scheme of messages before v0.1.1, without key names: all members except the
// signature.
func LegacyMessage() Scheme {
	return Scheme{Name: "airc-legacy", Document: canonicalWithout("signature"), Encoding: asFound()}
}

// LegacyTextless is the scheme of clients that add "text" after signing. If "text" differs
// from "body", no signature is valid.
func LegacyTextless() Scheme {
	return Scheme{Name: "airc-legacy-textless", Document: withoutText, Encoding: asFound()}
}

// LegacyFive is the scheme of registries whose signatures cover only five members.
func LegacyFive() Scheme {
	return Scheme{Name: "airc-legacy-five", Document: canonicalOf("from", "to", "text", "timestamp", "nonce"), Encoding: asFound()}
}

// LegacyHeader is the scheme of a signature in a header over the body of a request. It covers
// neither sender nor time, so it does not prove the sender.
func LegacyHeader() Scheme {
	return Scheme{Name: "airc-header", Document: canonicalWithout(), Encoding: asFound()}
}

// LegacyASCIIHeader is [LegacyHeader] for clients whose canonical form escapes all non-ASCII
// characters.
func LegacyASCIIHeader() Scheme {
	return Scheme{Name: "airc-header-ascii", Document: escapedASCII, Encoding: asFound()}
}

func canonicalWithout(members ...string) func([]byte) ([]byte, error) {
	return func(message []byte) ([]byte, error) {
		document, err := without(message, members...)
		if err != nil {
			return nil, fmt.Errorf("canonical message: %w", err)
		}
		return document, nil
	}
}

func asGiven(challenge []byte) ([]byte, error) {
	if len(challenge) == 0 {
		return nil, errors.New("canonical challenge: it is empty")
	}
	return challenge, nil
}

// decodedText ignores unused bits, which some registries set.
func decodedText(challenge []byte) ([]byte, error) {
	document := decodeAnyBase64(string(challenge))
	if len(document) == 0 {
		return nil, errors.New("canonical challenge: no base64")
	}
	return document, nil
}

func newPublicKey(request []byte) ([]byte, error) {
	members, err := readObject(request)
	if err != nil {
		return nil, fmt.Errorf("canonical rotation: %w", err)
	}
	var key string
	if err := federation.DecodeJSON(members["newPublicKey"], &key); err != nil || key == "" {
		return nil, errors.New("canonical rotation: no newPublicKey")
	}
	return []byte(key), nil
}

func withoutText(message []byte) ([]byte, error) {
	members, err := readObject(message)
	if err != nil {
		return nil, fmt.Errorf("canonical message: %w", err)
	}
	if text, body := members["text"], members["body"]; text == nil || !bytes.Equal(text, body) {
		return nil, errors.New("canonical message: text is not the body")
	}
	return canonicalWithout("signature", "text")(message)
}

func escapedASCII(body []byte) ([]byte, error) {
	canonical, err := JCS(body)
	if err != nil {
		return nil, fmt.Errorf("canonical body: %w", err)
	}
	var out bytes.Buffer
	for _, r := range string(canonical) {
		switch high, low := utf16.EncodeRune(r); {
		case r < 0x80:
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.Bytes(), nil
}

// BoundRegistration is the scheme of a registration that names the registry.
//
// spec: airc-shapes "Sessions and proofs"
func BoundRegistration() Scheme {
	return boundScheme("airc-bound-register", "aud", "challenge", "handle", "publicKey", "purpose", "timestamp")
}

// BoundRotation is [BoundRegistration] for a key rotation.
func BoundRotation() Scheme {
	return boundScheme("airc-bound-rotate", "aud", "handle", "newKid", "newPublicKey", "purpose", "timestamp")
}

// BoundRevocation is [BoundRegistration] for a key revocation.
func BoundRevocation() Scheme {
	return boundScheme("airc-bound-revoke", "aud", "handle", "kid", "purpose", "reason", "timestamp")
}

func boundScheme(name string, covered ...string) Scheme {
	return Scheme{Name: name, Document: canonicalOf(covered...), Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// All covered members are required.
func canonicalOf(covered ...string) func([]byte) ([]byte, error) {
	return func(message []byte) ([]byte, error) {
		members, err := readObject(message)
		if err != nil {
			return nil, fmt.Errorf("canonical message: %w", err)
		}
		for _, name := range covered {
			if members[name] == nil {
				return nil, fmt.Errorf("canonical message: no %s", name)
			}
		}
		for name := range members {
			if !slices.Contains(covered, name) {
				delete(members, name)
			}
		}
		return canonicalObject(members)
	}
}

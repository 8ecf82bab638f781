#!/usr/bin/env python3
"""Signs for handoffs, with a key that openssl made and nothing of Baton's.

  openssl genpkey -algorithm ed25519 -out alice.pem

  sign.py did KEY                  the did:key of a key
  sign.py registration KEY HANDLE  answers the challenge of an AIRC registry (stdin)
  sign.py message KEY MEMBERS      a signed AIRC message; stdin holds the answer to the
                                   registration, MEMBERS is JSON: to, body, payload
  sign.py rotate KEY NEW           a change of keys at a registry: NEW in place of KEY (stdin
                                   holds the answer to the registration)
  sign.py revoke KEY KID REASON    the end of the key KID there, likewise
  sign.py public KEY               the public key of a key, base64url
  sign.py proof KEY                answers a challenge of the REST API (stdin)
  sign.py member NAME              one member of the JSON on stdin

offer-irc takes its functions from here. Needs Python 3.9 and openssl 3.
"""

import base64
import hashlib
import json
import secrets
import subprocess
import sys
import tempfile
import time

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def b64(raw):
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def openssl(*args):
    return subprocess.run(["openssl", *args], check=True, stdout=subprocess.PIPE).stdout


def public(key):
    """The raw public key: the last 32 bytes of its DER."""
    return openssl("pkey", "-in", key, "-pubout", "-outform", "DER")[-32:]


def did(key):
    """did:key: base58btc of the Ed25519 prefix and the key."""
    number, digits = int.from_bytes(b"\xed\x01" + public(key), "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = BASE58[digit] + digits
    return "did:key:z" + digits


def sign(key, text):
    """The 64 bytes of an Ed25519 signature. openssl wants to know the length first,
    and so a file."""
    with tempfile.NamedTemporaryFile() as document:
        document.write(text.encode())
        document.flush()
        return openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", document.name)


def canonical(members):
    """RFC 8785, for members with names in ASCII and whole numbers."""
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def ulid():
    """48 bits of milliseconds and 80 random ones."""
    number = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def offer(key, channel, title, to=None):
    """The tags of a signed offer. All that begins with "handoff" is signed, with the
    channel, the signer and the id."""
    name, event = did(key), ulid()
    fields = {"handoff": "offer", "handoff-id": event, "handoff-from": name, "handoff-task": title}
    if to:
        fields["handoff-to"] = to
    document = canonical({**fields, "from": name, "target": channel.lower(), "id": event})
    kid = b64(hashlib.sha256(public(key)).digest()[:16])
    signature = "ed25519:" + kid + ":" + b64(sign(key, document))
    return {**fields, "eventid": event, "sig": signature}


def bound(key, audience, purpose, signature, members):
    """A request with a signature that names the registry and the purpose: a signature for
    one registry is none for another."""
    members = {**members, "aud": audience, "purpose": purpose, "timestamp": int(time.time())}
    return {**members, signature: b64(sign(key, canonical(members)))}


def registration(key, handle, given):
    """A registration at an AIRC registry, with the proof that one has the key; given is the
    answer to the request for a challenge."""
    members = {"handle": handle, "publicKey": b64(public(key)), "challenge": given["challenge"]}
    return bound(key, given["aud"], "register", "challengeSignature", members)


def rotation(key, new, registered):
    """A request that puts a new key in the place of a key."""
    raw = public(new)
    kid = "k_" + hashlib.sha256(raw).hexdigest()[:16]
    members = {"handle": registered["handle"], "newPublicKey": b64(raw), "newKid": kid}
    return bound(key, registered["domain"], "rotate", "signature", members)


def revocation(key, kid, reason, registered):
    """A request that ends a key."""
    members = {"handle": registered["handle"], "kid": kid, "reason": reason}
    return bound(key, registered["domain"], "revoke", "signature", members)


def proof(key, challenge):
    """What proves a DID to the REST API."""
    return {"did": did(key), "challenge": challenge, "signature": b64(sign(key, challenge))}


def message(key, registered, members):
    """A signed AIRC message. Everything but the signature is signed."""
    envelope = {
        "v": "0.1",
        "id": b64(secrets.token_bytes(16)),
        "kid": "k_" + hashlib.sha256(public(key)).hexdigest()[:16],
        "aud": registered["domain"],
        "from": registered["handle"],
        "timestamp": int(time.time()),
        **members,
    }
    return {**envelope, "signature": b64(sign(key, canonical(envelope)))}


def main(command, *args):
    if command == "did":
        print(did(*args))
    elif command == "registration":
        print(canonical(registration(*args, json.load(sys.stdin))))
    elif command == "proof":
        print(canonical(proof(*args, json.load(sys.stdin)["challenge"])))
    elif command == "message":
        print(canonical(message(args[0], json.load(sys.stdin), json.loads(args[1]))))
    elif command == "rotate":
        print(canonical(rotation(*args, json.load(sys.stdin))))
    elif command == "revoke":
        print(canonical(revocation(*args, json.load(sys.stdin))))
    elif command == "public":
        print(b64(public(*args)))
    elif command == "member":
        print(json.load(sys.stdin)[args[0]])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*(sys.argv[1:] or ["help"]))
    except TypeError:
        sys.exit(__doc__)

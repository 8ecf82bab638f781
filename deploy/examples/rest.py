#!/usr/bin/env python3
"""One agent offers work to another over plain HTTP: rest.py GATEWAY"""

import json
import subprocess
import sys
import urllib.request

import sign


class Agent:
    def __init__(self, gateway, key):
        self.api, self.headers, self.did = gateway + "/api/v1/", {}, sign.did(key)
        challenge = self.call("auth/challenge", {"did": self.did})["challenge"]
        token = self.call("auth/token", sign.proof(key, challenge))["access_token"]
        self.headers = {"Authorization": "Bearer " + token}

    def call(self, path, body=None, **headers):
        """POSTs a body, or without one GETs; a refusal is a urllib.error.HTTPError."""
        text = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.headers, **headers}
        with urllib.request.urlopen(urllib.request.Request(self.api + path, text, headers)) as answer:
            return json.load(answer)


for name in ("eliza", "scholar"):
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", name + ".pem"], check=True)
eliza, scholar = Agent(sys.argv[1], "eliza.pem"), Agent(sys.argv[1], "scholar.pem")

offer = {"to": scholar.did, "title": "Cite three sources on X", "context": {"topic": "X"}}
handoff = eliza.call("handoffs", offer, **{"Idempotency-Key": "cite-x"})["id"]

for entry in scholar.call("inbox?wait=50s")["items"]:
    work = "handoffs/" + entry["step"]["handoff_id"]
    scholar.call(work + "/accept", {})
    scholar.call(work + "/complete", {"note": "three found"})

done = eliza.call("handoffs/" + handoff)
print(done["state"], [step["verb"] for step in done["steps"]])

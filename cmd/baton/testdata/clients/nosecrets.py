"""Hooks of schemathesis: half of the handoffs that it asks for are real ones, and what
others planted in those may be in no answer."""

import json
import os
import zlib

import schemathesis

HANDOFFS = json.loads(os.environ["BATON_HANDOFFS"])
PLANTED = os.environ["BATON_PLANTED"]


@schemathesis.hook
def map_path_parameters(ctx, path_parameters):
    number = zlib.crc32(json.dumps(path_parameters, sort_keys=True, default=str).encode())
    if path_parameters and "id" in path_parameters and number & 1:
        path_parameters["id"] = HANDOFFS[(number >> 1) % len(HANDOFFS)]
    return path_parameters


@schemathesis.check
def nothing_of_others(ctx, response, case):
    assert not PLANTED or PLANTED.encode() not in response.content, "what others wrote to each other is told"

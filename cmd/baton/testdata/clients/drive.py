"""Calls the client of airc-protocol as it is told on stdin.

    drive.py URL NAME

Each line of stdin is a list: a method of the client and its arguments. Each line of
stdout is what it returned, or {"raised": text}.
"""

import json
import sys

from airc import Client

client = Client(sys.argv[2], registry=sys.argv[1], working_on="interop")
for line in sys.stdin:
    method, *arguments = json.loads(line)
    try:
        answer = getattr(client, method)(*arguments)
    except Exception as error:
        answer = {"raised": str(error)}
    print(json.dumps(answer), flush=True)

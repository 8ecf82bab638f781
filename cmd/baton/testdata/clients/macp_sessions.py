"""Plays sessions of the handoff mode with the Python SDK of MACP.

    macp_sessions.py ADDRESS OWNER OWNER_TOKEN TARGET TARGET_TOKEN OTHER OTHER_TOKEN

It prints one line of JSON for each thing that a test looks at.
"""
import json
import sys
import uuid

import grpc
from macp_sdk import AuthConfig, MacpClient
from macp_sdk.errors import MacpAckError, MacpTransportError
from macp_sdk.handoff import HandoffSession

address, *pairs = sys.argv[1:]
names, tokens = pairs[0::2], pairs[1::2]


def client(name, token):
    auth = AuthConfig.for_bearer(token, expected_sender=name)
    return MacpClient(target=address, allow_insecure=True, auth=auth, default_timeout=10)


def show(what, value):
    print(json.dumps([what, value]), flush=True)


def code(do):
    try:
        return "ok" if do().ok else "refused"
    except MacpAckError as err:
        return err.failure.code
    except MacpTransportError as err:
        return err.macp_code
    except grpc.RpcError as err:
        return dict(err.trailing_metadata() or ()).get("macp-error-code", err.code().name)


owner, target, other = (client(n, t) for n, t in zip(names, tokens))
show("modes", list(owner.initialize().supported_modes))

session = HandoffSession(owner)
there = HandoffSession(target, session_id=session.session_id)
elsewhere = HandoffSession(other, session_id=session.session_id)
show("start", code(lambda: session.start(intent="Cite three sources", participants=names[:2], ttl_ms=60000)))
show("accept before an offer", code(lambda: there.accept_handoff("h1", accepted_by=names[1])))
show("offer", code(lambda: session.offer("h1", names[1], scope="research", reason="busy")))
show("context", code(lambda: session.add_context("h1", content_type="application/json", context=b'{"topic":"X"}')))
show("second offer", code(lambda: session.offer("h2", names[1])))
show("offer by the target", code(lambda: there.offer("h3", names[0])))
show("accept by a stranger", code(lambda: elsewhere.accept_handoff("h1", accepted_by=names[2])))
show("session of a stranger", code(lambda: other.get_session(session.session_id)))
stream = target.open_stream()
stream.send_subscribe(session.session_id)
show("history", [stream.read(timeout=10).message_type for _ in range(3)])
show("accept", code(lambda: there.accept_handoff("h1", accepted_by=names[1], reason="ok")))
show("decline after accept", code(lambda: there.decline("h1", declined_by=names[1])))
show("commit by the target", code(lambda: there.commit(action="handoff.accepted", authority_scope="research", reason="done")))
show("commit", code(lambda: session.commit(action="handoff.accepted", authority_scope="research", reason="done")))
show("live", [stream.read(timeout=10).message_type for _ in range(2)])
show("offer after the end", code(lambda: session.offer("h4", names[1])))
show("lists", [len(list(c.list_sessions())) for c in (owner, target, other)])

declined = HandoffSession(owner)
declined.start(intent="Decline me", participants=names, ttl_ms=60000)
declined.offer("d1", names[1])
show("decline", code(lambda: HandoffSession(target, session_id=declined.session_id).decline("d1", declined_by=names[1], reason="no")))
show("offer to the same target", code(lambda: declined.offer("d2", names[1])))
show("offer to another target", code(lambda: declined.offer("d3", names[2])))
show("suspend", code(lambda: owner.suspend_session(declined.session_id)))
show("accept while suspended", code(lambda: HandoffSession(other, session_id=declined.session_id).accept_handoff("d3")))
show("resume", code(lambda: owner.resume_session(declined.session_id)))
show("cancel by a participant", code(lambda: target.cancel_session(declined.session_id, reason="mine")))
show("cancel", code(lambda: owner.cancel_session(declined.session_id, reason="over")))

stranger = MacpClient(target=address, allow_insecure=True, auth=AuthConfig.for_bearer(str(uuid.uuid4())), default_timeout=10)
show("list with a bad token", code(lambda: stranger.list_sessions()))
show("unknown session", code(lambda: owner.get_session(str(uuid.uuid4()))))

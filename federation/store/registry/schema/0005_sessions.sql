-- Version 5 records how an agent registered, and its recovery key.

ALTER TABLE agent ADD COLUMN began    TEXT NOT NULL DEFAULT ''; -- as session.began; '' for an older agent, which proved its first key
ALTER TABLE agent ADD COLUMN recovery BLOB;                     -- public key; NULL for none

-- Agents below /api named their first key, possibly without a signature by it.
UPDATE agent SET began = 'header' WHERE shows_presence = 'public'
    AND EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND k.n = 0 AND k.did = '');

-- Older tokens of these agents name no session, so one row represents them all.
INSERT INTO session (id, participant, generation, expires, created, used)
SELECT 'api:' || handle, handle, 0, (unixepoch() + 2592000) * 1000000000, unixepoch() * 1000000000, unixepoch() * 1000000000 FROM agent
WHERE handle NOT LIKE '%@%' AND (NOT EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle)
    OR EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND (k.revoked = 0 OR k.revoked > unixepoch() * 1000000000)));

-- With tokens that have no nonce, an account can register one agent.
CREATE INDEX agent_account ON agent (issuer, subject) WHERE issuer <> '';

-- A released handle keeps its row: its next owner inherits its DID, inbox and consent.
ALTER TABLE agent ADD COLUMN released INTEGER NOT NULL DEFAULT 0; -- when an operator released it; 0 for a handle in use

-- First contacts share their limit by source.
ALTER TABLE consent ADD COLUMN source TEXT NOT NULL DEFAULT ''; -- site, link or registry of the sender's last request; '' if unknown

-- Code queues the deliveries of messages to webhooks.
DROP TRIGGER message_pushed;
DROP TRIGGER message_released;
DROP TRIGGER message_push_dropped;

-- Deliveries of messages to webhooks of agents, by 2 * 2^52 + message.n; see delivery of the record.
INSERT INTO actor (did) SELECT m.sender FROM delivery f JOIN message m ON m.n = f.item - 9007199254740992 WHERE f.item < 13510798882111488 ON CONFLICT (did) DO NOTHING;
UPDATE delivery SET sender = coalesce((SELECT a.n FROM message m JOIN actor a ON a.did = m.sender WHERE m.n = delivery.item - 9007199254740992), 0)
WHERE item >= 9007199254740992 AND item < 13510798882111488;
UPDATE delivery SET letter = l.n, replayed = l.replayed,
    reason = CASE delivery.state WHEN 'dead' THEN l.why ELSE delivery.reason END, code = CASE delivery.state WHEN 'dead' THEN l.reason ELSE delivery.code END
FROM dead_before l JOIN destination d ON d.name = l.link JOIN webhook w ON 'webhook/' || w.id = l.link AND w.participant <> ''
    JOIN event_before e ON e.seq = l.event JOIN message m ON m.recipient = w.participant AND m.event = e.id
WHERE delivery.item = m.n + 9007199254740992 AND delivery.destination = d.n;
INSERT INTO attempt (item, destination, n, at, reason)
SELECT m.n + 9007199254740992, d.n, t.n, t.at, t.reason
FROM attempt_before t JOIN destination d ON d.name = t.link JOIN webhook w ON 'webhook/' || w.id = t.link AND w.participant <> ''
    JOIN event_before e ON e.seq = t.item JOIN message m ON m.recipient = w.participant AND m.event = e.id;

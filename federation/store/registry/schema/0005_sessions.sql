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

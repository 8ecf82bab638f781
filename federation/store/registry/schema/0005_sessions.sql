-- Version 5 says how an agent registered, and keeps its recovery key.

ALTER TABLE agent ADD COLUMN began    TEXT NOT NULL DEFAULT ''; -- as session.began; '' for an agent from before that proved its first key
ALTER TABLE agent ADD COLUMN recovery BLOB;                     -- public key; NULL for none

-- Agents below /api named their first key. It was never recorded whether they signed for it.
UPDATE agent SET began = 'header' WHERE shows_presence = 'public'
    AND EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND k.n = 0 AND k.did = '');

-- The tokens of these agents from before name no session. This row stands for them.
INSERT INTO session (id, participant, generation, expires, created, used)
SELECT 'api:' || handle, handle, 0, (unixepoch() + 2592000) * 1000000000, unixepoch() * 1000000000, unixepoch() * 1000000000 FROM agent
WHERE handle NOT LIKE '%@%' AND (NOT EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle)
    OR EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND (k.revoked = 0 OR k.revoked > unixepoch() * 1000000000)));

-- An account registers one agent by a token that names no registration.
CREATE INDEX agent_account ON agent (issuer, subject) WHERE issuer <> '';

-- A released handle keeps its row: whoever registers the handle next gets its DID, inbox and
-- consent.
ALTER TABLE agent ADD COLUMN released INTEGER NOT NULL DEFAULT 0; -- when an operator released it; 0 for a handle in use

-- First contacts have shares by source.
ALTER TABLE consent ADD COLUMN source TEXT NOT NULL DEFAULT ''; -- site, link or registry of the sender when it asked last; '' if unknown

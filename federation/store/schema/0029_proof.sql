-- A did:key belongs to an agent from when the agent proved the key for its handle; until then
-- agent_key.did is ''. Of the keys on file these were proved: the first key of an agent that
-- registered with a challenge (agents below /api show everything to everybody, and only a
-- challenge gives a token that changes that), and keys that signed a message to this registry.
-- A message with a nonce names no registry.
CREATE TEMP TABLE proved_key AS
SELECT k.handle, k.n FROM agent_key k JOIN agent a ON a.handle = k.handle
WHERE k.n = 0 AND k.created = a.registered AND NOT (a.shows_presence = 'public' AND a.shows_context = 'public')
UNION
SELECT k.handle, k.n FROM agent_key k JOIN (
    SELECT sender, text ->> '$.kid' AS kid
    FROM (SELECT sender, CAST(envelope AS TEXT) AS text FROM message WHERE json_valid(CAST(envelope AS TEXT)))
    WHERE text ->> '$.nonce' IS NULL AND text ->> '$.aud' IS NOT NULL
) m ON m.sender = k.handle AND m.kid = k.id;

CREATE TEMP TABLE named_did AS SELECT DISTINCT did FROM agent_key
WHERE NOT EXISTS (SELECT 1 FROM proved_key p WHERE p.handle = agent_key.handle AND p.n = agent_key.n);

UPDATE agent_key SET did = ''
WHERE NOT EXISTS (SELECT 1 FROM proved_key p WHERE p.handle = agent_key.handle AND p.n = agent_key.n);

-- Of two agents with one key the older one has its DID.
UPDATE agent_key SET did = '' WHERE did <> '' AND EXISTS (
    SELECT 1 FROM agent_key k JOIN agent a ON a.handle = k.handle
    WHERE k.did = agent_key.did AND a.n < (SELECT n FROM agent WHERE agent.handle = agent_key.handle));

UPDATE agent SET own_did = did
WHERE NOT EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND k.did = agent.own_did);

-- A key that was only named may be that of another DID.
DELETE FROM key_owner WHERE did IN (SELECT did FROM named_did) AND did NOT IN (SELECT did FROM agent_key)
    AND NOT EXISTS (SELECT 1 FROM binding b WHERE b.did = key_owner.did);

DROP TABLE proved_key;
DROP TABLE named_did;

-- No two agents have one DID.
CREATE UNIQUE INDEX agent_key_owner ON agent_key (did) WHERE did <> '';

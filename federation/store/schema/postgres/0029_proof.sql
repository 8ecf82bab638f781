CREATE FUNCTION signing_kid(envelope bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE members json;
BEGIN
    members := convert_from(envelope, 'UTF8')::json;
    IF members ->> 'nonce' IS NULL AND members ->> 'aud' IS NOT NULL THEN
        RETURN members ->> 'kid';
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

CREATE TABLE proved_key AS
SELECT k.handle, k.n FROM agent_key k JOIN agent a ON a.handle = k.handle
WHERE k.n = 0 AND k.created = a.registered AND NOT (a.shows_presence = 'public' AND a.shows_context = 'public')
UNION
SELECT k.handle, k.n FROM agent_key k
JOIN (SELECT sender, signing_kid(envelope) AS kid FROM message) m ON m.sender = k.handle AND m.kid = k.id;

CREATE TABLE named_did AS SELECT DISTINCT did FROM agent_key
WHERE NOT EXISTS (SELECT 1 FROM proved_key p WHERE p.handle = agent_key.handle AND p.n = agent_key.n);

UPDATE agent_key SET did = ''
WHERE NOT EXISTS (SELECT 1 FROM proved_key p WHERE p.handle = agent_key.handle AND p.n = agent_key.n);

UPDATE agent_key SET did = '' WHERE did <> '' AND EXISTS (
    SELECT 1 FROM agent_key k JOIN agent a ON a.handle = k.handle
    WHERE k.did = agent_key.did AND a.n < (SELECT n FROM agent WHERE agent.handle = agent_key.handle));

UPDATE agent SET own_did = did
WHERE NOT EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND k.did = agent.own_did);

DELETE FROM key_owner WHERE did IN (SELECT did FROM named_did) AND did NOT IN (SELECT did FROM agent_key)
    AND NOT EXISTS (SELECT 1 FROM binding b WHERE b.did = key_owner.did);

DROP TABLE proved_key;
DROP TABLE named_did;
DROP FUNCTION signing_kid(bytea);

CREATE UNIQUE INDEX agent_key_owner ON agent_key (did) WHERE did <> '';

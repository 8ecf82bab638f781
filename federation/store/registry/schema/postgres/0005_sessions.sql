-- Version 5 of the tables of a registry. The version in the parent folder describes it.

ALTER TABLE agent
    ADD COLUMN began    text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN recovery bytea;

UPDATE agent SET began = 'header' WHERE shows_presence = 'public'
    AND EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND k.n = 0 AND k.did = '');

INSERT INTO session (id, participant, generation, expires, created, used)
SELECT 'api:' || handle, handle, 0, (extract(epoch FROM now())::bigint + 2592000) * 1000000000,
    extract(epoch FROM now())::bigint * 1000000000, extract(epoch FROM now())::bigint * 1000000000 FROM agent
WHERE handle NOT LIKE '%@%' AND (NOT EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle)
    OR EXISTS (SELECT 1 FROM agent_key k WHERE k.handle = agent.handle AND (k.revoked = 0 OR k.revoked > extract(epoch FROM now())::bigint * 1000000000)));

-- With tokens that have no nonce, an account can register one agent.
CREATE INDEX agent_account ON agent (issuer, subject) WHERE issuer <> '';

-- See the version in the parent folder.
ALTER TABLE agent ADD COLUMN released bigint NOT NULL DEFAULT 0;
ALTER TABLE consent ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '';

-- Code queues the deliveries of messages to webhooks.
DROP TRIGGER message_pushed ON message;
DROP TRIGGER message_released ON message;
DROP TRIGGER message_push_dropped ON message;
DROP FUNCTION message_pushed(), message_push_dropped();

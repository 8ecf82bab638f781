-- The keys of an agent: each has a DID of its own, and may end.
ALTER TABLE agent_key ADD COLUMN did     TEXT    NOT NULL DEFAULT '';
ALTER TABLE agent_key ADD COLUMN expires INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_key ADD COLUMN revoked INTEGER NOT NULL DEFAULT 0; -- from when it is good no more
ALTER TABLE agent_key ADD COLUMN reason  TEXT    NOT NULL DEFAULT '';

UPDATE agent_key SET did = (SELECT own_did FROM agent WHERE agent.handle = agent_key.handle);

-- Who may see that an agent is there, and what it works on; '' is the default.
ALTER TABLE agent ADD COLUMN shows_presence TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN shows_context  TEXT NOT NULL DEFAULT '';

CREATE INDEX agent_key_did ON agent_key (did);
CREATE INDEX session_handle ON session (handle);

-- When the sender of an edge last asked for consent, until when it may not ask
-- again, and whether the block of a blocked edge answered a request.
ALTER TABLE consent ADD COLUMN asked    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE consent ADD COLUMN barred   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE consent ADD COLUMN answered INTEGER NOT NULL DEFAULT 0;

UPDATE consent SET asked = updated WHERE state = 'pending';

CREATE INDEX consent_asked ON consent (sender, asked) WHERE asked <> 0;
CREATE INDEX consent_pending ON consent (recipient, asked) WHERE state = 'pending';

-- When a message was delivered, in milliseconds: each later than the one before it in
-- its thread. Messages of before are told at the time that they came at.
ALTER TABLE message ADD COLUMN told INTEGER; -- NULL while held
UPDATE message SET told = received WHERE seq IS NOT NULL;

CREATE INDEX message_told ON message (recipient, told);
CREATE INDEX message_high ON message (high, low);

-- Offers without a deadline that their agent was not shown: they wait for consent,
-- or were thrown away.
CREATE TABLE unseen (
    handoff TEXT    NOT NULL PRIMARY KEY,
    opened  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX unseen_opened ON unseen (opened);

INSERT OR IGNORE INTO unseen (handoff, opened)
SELECT h.id, h.since FROM message m JOIN handoff h ON h.id = m.handoff
WHERE m.edge IS NOT NULL AND m.event = m.handoff AND h.clock = 'unanswered' AND h.state = 'offered';

CREATE TRIGGER unseen_answered AFTER UPDATE OF clock ON handoff WHEN OLD.clock = 'unanswered' AND NEW.clock <> 'unanswered' BEGIN
    DELETE FROM unseen WHERE handoff = NEW.id;
END;

-- Receipts are events too, but belong to no log: their version and prev are NULL.
ALTER TABLE event ALTER COLUMN version DROP NOT NULL;
ALTER TABLE event ALTER COLUMN prev DROP NOT NULL;

-- Inboxes and feeds are numbered by their events, which are never deleted: one
-- tree to write for each instead of up to three.
CREATE TABLE arrived (
    did     TEXT    NOT NULL,
    event   INTEGER NOT NULL, -- event.seq
    waiting INTEGER,          -- bytes of the signed document while nobody has read it, then NULL
    PRIMARY KEY (did, event)
) STRICT, WITHOUT ROWID;

-- What came before counts as read: nobody noted whether it was.
INSERT INTO arrived (did, event) SELECT did, event FROM inbox;

DROP TABLE inbox;
ALTER TABLE arrived RENAME TO inbox;

CREATE TABLE owed (
    link    TEXT    NOT NULL,
    event   INTEGER NOT NULL, -- event.seq
    attempt INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link, event)
) STRICT, WITHOUT ROWID;

INSERT INTO owed (link, event, attempt) SELECT link, event, attempt FROM feed;

DROP TABLE feed;
ALTER TABLE owed RENAME TO feed;

-- Sums of inbox.waiting, so that a full inbox is not counted through for each
-- offer to it. Triggers keep them: no write can forget to.
CREATE TABLE mailbox (
    did     TEXT    NOT NULL PRIMARY KEY,
    entries INTEGER NOT NULL,
    size    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER inbox_arrived AFTER INSERT ON inbox WHEN NEW.waiting IS NOT NULL BEGIN
    INSERT INTO mailbox (did, entries, size) VALUES (NEW.did, 1, NEW.waiting)
    ON CONFLICT (did) DO UPDATE SET entries = entries + 1, size = size + excluded.size;
END;

CREATE TRIGGER inbox_read AFTER UPDATE OF waiting ON inbox WHEN OLD.waiting IS NOT NULL AND NEW.waiting IS NULL BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting WHERE did = OLD.did;
END;

-- Members of the view by which handoffs are looked for.
ALTER TABLE handoff ADD COLUMN state    TEXT    NOT NULL DEFAULT '';
ALTER TABLE handoff ADD COLUMN offerer  TEXT    NOT NULL DEFAULT '';
ALTER TABLE handoff ADD COLUMN opened   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE handoff ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;

-- To the millisecond is enough: nothing is due more precisely than to the second.
UPDATE handoff SET
    state    = view ->> 'state',
    offerer  = view ->> 'offerer',
    opened   = coalesce(CAST(unixepoch(view ->> 'opened', 'subsec') * 1000 AS INTEGER) * 1000000, 0),
    deadline = coalesce(CAST(unixepoch(view ->> 'deadline', 'subsec') * 1000 AS INTEGER) * 1000000, 0);

-- An unanswered handoff is in one of the first two.
CREATE INDEX handoff_deadline ON handoff (deadline) WHERE deadline <> 0 AND state IN ('offered', 'open');
CREATE INDEX handoff_opened ON handoff (opened) WHERE deadline = 0 AND state IN ('offered', 'open');
CREATE INDEX handoff_unfinished ON handoff (offerer, state) WHERE state IN ('offered', 'open', 'assigned');

ALTER TABLE message ADD COLUMN edge TEXT;    -- the handle whose consent it waits for; NULL once delivered
ALTER TABLE message ADD COLUMN read INTEGER; -- when its recipient had read it; NULL before
ALTER TABLE message ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0; -- 1 when its recipient threw it away

UPDATE message SET edge = sender WHERE seq IS NULL;

DROP INDEX message_held;
CREATE INDEX message_held ON message (edge, recipient) WHERE edge IS NOT NULL;
CREATE INDEX message_handoff ON message (handoff, recipient) WHERE handoff IS NOT NULL;

-- The position up to which an agent was handed its messages. What came before
-- counts as handed out: nobody noted whether it was.
ALTER TABLE agent ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
UPDATE agent SET shown = coalesce((SELECT max(position) FROM message WHERE recipient = agent.handle), 0);

-- What agents say they can do: the strings in "skills" of agent.capabilities.
CREATE TABLE agent_skill (
    skill TEXT NOT NULL,
    agent INTEGER NOT NULL, -- agent.n
    PRIMARY KEY (skill, agent)
) STRICT, WITHOUT ROWID;

INSERT INTO agent_skill (skill, agent)
SELECT DISTINCT s.value, a.n
FROM agent a JOIN json_each(CAST(a.capabilities AS TEXT), '$.skills') s
WHERE s.type = 'text';

-- A family of refresh tokens, of which one is good.
CREATE TABLE session (
    id         TEXT    NOT NULL PRIMARY KEY,
    handle     TEXT    NOT NULL,
    generation INTEGER NOT NULL, -- of the good one
    expires    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_expires ON session (expires);

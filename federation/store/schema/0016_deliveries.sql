-- A row of a feed says itself when it is tried. The rows of one handoff are a lane: the
-- first one has a time, and those behind it have none until they are the first.
ALTER TABLE feed ADD COLUMN handoff TEXT    NOT NULL DEFAULT '';
ALTER TABLE feed ADD COLUMN rank    INTEGER NOT NULL DEFAULT 1;
ALTER TABLE feed ADD COLUMN filed   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE feed ADD COLUMN next    INTEGER;                    -- NULL behind another row of its lane
ALTER TABLE feed ADD COLUMN reason  TEXT    NOT NULL DEFAULT ''; -- why the last attempt failed
ALTER TABLE feed ADD COLUMN delayed INTEGER NOT NULL DEFAULT 0; -- 1 when its signer was told that it takes time

UPDATE feed SET handoff = e.handoff, filed = e.filed, rank = CASE
    WHEN e.state IN ('completed', 'failed', 'declined', 'cancelled', 'expired') THEN 0
    WHEN e.id = e.handoff THEN 2
    WHEN e.body ->> '$.verb' = 'progress' THEN 3
    ELSE 1 END
FROM event e WHERE e.seq = feed.event;

CREATE INDEX feed_lane ON feed (handoff, link, event);

UPDATE feed SET next = 0 WHERE NOT EXISTS
    (SELECT 1 FROM feed b WHERE b.handoff = feed.handoff AND b.link = feed.link AND b.event < feed.event);

CREATE INDEX feed_head ON feed (link, rank, event, next, handoff) WHERE next IS NOT NULL;
CREATE INDEX feed_filed ON feed (filed);
CREATE INDEX feed_undelayed ON feed (filed) WHERE delayed = 0;

-- The attempts that failed, the last few of each delivery.
CREATE TABLE attempt (
    link   TEXT    NOT NULL, -- '' for other registries
    item   INTEGER NOT NULL, -- event.seq, or relay.n
    n      INTEGER NOT NULL, -- from 1
    at     INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    PRIMARY KEY (link, item, n)
) STRICT, WITHOUT ROWID;

-- Of a refusal its code, of what was given up the reason.
ALTER TABLE settled ADD COLUMN code TEXT NOT NULL DEFAULT '';

-- Deliveries that were given up. A row stays when it was put back, so that it is put
-- back once.
CREATE TABLE dead (
    n        INTEGER PRIMARY KEY AUTOINCREMENT,
    link     TEXT    NOT NULL, -- or the registry
    event    INTEGER,          -- event.seq; NULL for a message to another registry
    relay    INTEGER,          -- relay.n; NULL for a row of a feed
    reason   TEXT    NOT NULL,
    why      TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    queued   INTEGER NOT NULL,
    died     INTEGER NOT NULL,
    replayed INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX dead_event ON dead (event, link) WHERE event IS NOT NULL;
CREATE UNIQUE INDEX dead_relay ON dead (relay) WHERE relay IS NOT NULL;
CREATE INDEX dead_died ON dead (died);
CREATE INDEX dead_reason ON dead (reason) WHERE replayed = 0;

INSERT INTO dead (link, relay, reason, why, attempt, queued, died)
SELECT peer, n, 'refused', coalesce(reason, ''), attempt, queued, dead FROM relay WHERE dead IS NOT NULL ORDER BY dead;

-- Links and registries that an operator keeps deliveries back from.
CREATE TABLE held (
    name   TEXT    NOT NULL PRIMARY KEY,
    since  INTEGER NOT NULL,
    reason TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- What operators changed.
CREATE TABLE audit (
    n       INTEGER PRIMARY KEY, -- order in which it was done
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    what    TEXT    NOT NULL,    -- the words of the command
    subject TEXT    NOT NULL,
    reason  TEXT    NOT NULL
) STRICT;

CREATE INDEX audit_actor ON audit (actor, n);

-- How operators want other registries to be treated, over what the configuration says.
CREATE TABLE peer_mode (
    domain TEXT    NOT NULL PRIMARY KEY,
    mode   TEXT    NOT NULL,
    since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

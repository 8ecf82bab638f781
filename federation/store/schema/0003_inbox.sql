-- Entries of an inbox are numbered from 1 as they arrive, and one device at a time
-- may hold one that waits.
ALTER TABLE inbox ADD COLUMN number   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN device   TEXT; -- that has it leased, or had; NULL for none, and once put back
ALTER TABLE inbox ADD COLUMN delivery INTEGER NOT NULL DEFAULT 0; -- how often it was leased
ALTER TABLE inbox ADD COLUMN until    INTEGER NOT NULL DEFAULT 0; -- before then nobody else is given it

UPDATE inbox SET number = r.number
FROM (SELECT did, event, row_number() OVER (PARTITION BY did ORDER BY event) AS number FROM inbox) r
WHERE r.did = inbox.did AND r.event = inbox.event;

ALTER TABLE mailbox ADD COLUMN number INTEGER NOT NULL DEFAULT 0; -- of the newest entry, kept or not
ALTER TABLE mailbox ADD COLUMN event  INTEGER NOT NULL DEFAULT 0; -- event.seq of the newest entry, kept or not
ALTER TABLE mailbox ADD COLUMN clear  INTEGER NOT NULL DEFAULT 0; -- event.seq up to which nothing waits any more

INSERT INTO mailbox (did, entries, size, number, event)
SELECT did, 0, 0, max(number), max(event) FROM inbox WHERE true GROUP BY did
ON CONFLICT (did) DO UPDATE SET number = excluded.number, event = excluded.event;

DROP TRIGGER inbox_arrived;
CREATE TRIGGER inbox_arrived AFTER INSERT ON inbox BEGIN
    INSERT INTO mailbox (did, entries, size, number, event) VALUES (NEW.did, 1, NEW.waiting, NEW.number, NEW.event)
    ON CONFLICT (did) DO UPDATE SET entries = entries + 1, size = size + excluded.size,
        number = excluded.number, event = excluded.event;
END;

CREATE TRIGGER inbox_pruned AFTER DELETE ON inbox WHEN OLD.waiting IS NOT NULL BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting WHERE did = OLD.did;
END;

-- What waits, oldest first over all inboxes.
CREATE INDEX inbox_waiting ON inbox (event) WHERE waiting IS NOT NULL;

-- How far each device of a DID has read.
CREATE TABLE device (
    did    TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    event  INTEGER NOT NULL, -- event.seq of the entry that it read last, 0 for none
    number INTEGER NOT NULL, -- of that entry
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL,
    PRIMARY KEY (did, name)
) STRICT, WITHOUT ROWID;

-- Handoffs are listed by who takes part in them and by state, the newest movement
-- first. The DID '' takes part in all of them.
ALTER TABLE handoff ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;

UPDATE handoff SET moved =
    coalesce((SELECT max(filed) FROM event WHERE event.handoff = handoff.id AND event.version = handoff.version), opened);

CREATE TABLE party (
    did     TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    moved   INTEGER NOT NULL,
    handoff TEXT    NOT NULL,
    PRIMARY KEY (did, state, moved, handoff)
) STRICT, WITHOUT ROWID;

-- Triggers keep them: no write can forget to.
CREATE TRIGGER handoff_opened AFTER INSERT ON handoff BEGIN
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER handoff_pruned AFTER DELETE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
END;

CREATE TRIGGER handoff_moved AFTER UPDATE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

INSERT INTO party (did, state, moved, handoff)
SELECT '', state, moved, id FROM handoff
UNION SELECT offerer, state, moved, id FROM handoff
UNION SELECT view ->> 'offeree', state, moved, id FROM handoff WHERE view ->> 'offeree' IS NOT NULL
UNION SELECT view ->> 'assignee', state, moved, id FROM handoff WHERE view ->> 'assignee' IS NOT NULL;

-- People name a handoff by the end of its id.
CREATE INDEX handoff_suffix ON handoff (substr(id, -6));

-- Evidence goes with the handoff that first named it. That of renditions from
-- before stays: nobody noted what it was of.
ALTER TABLE evidence ADD COLUMN handoff TEXT;

UPDATE evidence SET handoff = e.handoff FROM (
    SELECT handoff, unhex((SELECT group_concat(printf('%02x', j.value), '') FROM json_each(body, '$.evidence.digest') j)) AS digest
    FROM event WHERE body ->> '$.evidence' IS NOT NULL
) e WHERE e.digest = evidence.digest;

CREATE INDEX evidence_handoff ON evidence (handoff) WHERE handoff IS NOT NULL;

-- Rows are numbered on from the newest event, and from the newest message of each
-- inbox and thread; those are never pruned, so that no number comes back.

-- The ids of events that are gone, so that none is filed a second time.
CREATE TABLE spent (
    id      TEXT    NOT NULL,
    signer  TEXT    NOT NULL,
    digest  BLOB    NOT NULL, -- as in event
    handoff TEXT    NOT NULL,
    gone    INTEGER NOT NULL, -- when the event was pruned
    PRIMARY KEY (id, signer)
) STRICT, WITHOUT ROWID;

CREATE INDEX spent_digest ON spent (signer, digest);
CREATE INDEX spent_gone ON spent (gone);

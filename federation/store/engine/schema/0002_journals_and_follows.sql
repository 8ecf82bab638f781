-- Version 2 of the record in an SQLite file: a webhook can follow a handoff, and links keep
-- journals.

-- Webhooks -------------------------------------------------------------------------------

-- SQLite cannot change a UNIQUE constraint, so the table is made again. Triggers of other
-- tables name it, and keep their text: no table is renamed.
CREATE TABLE webhook_before AS SELECT * FROM webhook;
DROP TABLE webhook;

-- Addresses to which arrivals in an inbox, or the steps of a handoff, are posted.
CREATE TABLE webhook (
    id          TEXT    NOT NULL PRIMARY KEY,
    did         TEXT    NOT NULL,
    participant TEXT    NOT NULL,            -- name on a link whose messages are posted; '' for the inbox of did
    handoff     TEXT    NOT NULL,            -- whose steps are posted; '' for none
    label       TEXT    NOT NULL,            -- of its owner, among those that follow one handoff
    sealed      BLOB,                        -- what the network that posts needs, readable to that alone
    url         TEXT    NOT NULL,
    since       INTEGER NOT NULL,
    disabled    INTEGER NOT NULL DEFAULT 0,  -- 0 while it is called
    why         TEXT    NOT NULL DEFAULT '', -- it is disabled
    due         INTEGER,                     -- when the first of its deliveries is; NULL for none
    taken       INTEGER NOT NULL DEFAULT 0,  -- until when a worker has it
    UNIQUE (did, handoff, url, label)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_participant ON webhook (participant) WHERE participant <> '';
CREATE INDEX webhook_handoff ON webhook (handoff) WHERE handoff <> '';
CREATE INDEX webhook_due ON webhook (due, taken, id) WHERE due IS NOT NULL;

INSERT INTO webhook (id, did, participant, handoff, label, url, since, disabled, why, due, taken)
SELECT id, did, participant, '', '', url, since, disabled, why, due, taken FROM webhook_before;
DROP TABLE webhook_before;

-- Arrivals and notices go to webhooks that follow no handoff.
DROP TRIGGER inbox_pushed;
CREATE TRIGGER inbox_pushed AFTER INSERT ON inbox WHEN EXISTS (SELECT 1 FROM webhook WHERE did = NEW.did) BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.event, e.handoff, e.filed,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h JOIN event e ON e.seq = NEW.event WHERE h.did = NEW.did AND h.participant = '' AND h.handoff = '' AND h.disabled = 0;
END;

DROP TRIGGER inbox_push_dropped;
CREATE TRIGGER inbox_push_dropped AFTER DELETE ON inbox WHEN EXISTS (SELECT 1 FROM webhook WHERE did = OLD.did) BEGIN
    DELETE FROM push WHERE item = OLD.event AND webhook IN (SELECT id FROM webhook WHERE did = OLD.did AND participant = '' AND handoff = '');
END;

DROP TRIGGER notice_pushed;
CREATE TRIGGER notice_pushed AFTER INSERT ON notice WHEN NEW.link = 'inbox' AND EXISTS (SELECT 1 FROM webhook WHERE did = NEW.reader) BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.n + 4503599627370496, l.order_key, NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = l.order_key AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h JOIN (SELECT coalesce(NEW.body ->> '$.event.handoff', NEW.event) AS order_key) l
    WHERE h.did = NEW.reader AND h.participant = '' AND h.handoff = '' AND h.disabled = 0;
END;

-- A webhook that follows a handoff gets each step of it, and ends with it.
CREATE TRIGGER event_pushed AFTER INSERT ON event
    WHEN NEW.version IS NOT NULL AND EXISTS (SELECT 1 FROM webhook WHERE handoff = NEW.handoff AND handoff <> '') BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.seq, NEW.handoff, NEW.filed,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = NEW.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h WHERE h.handoff = NEW.handoff AND h.handoff <> '' AND h.disabled = 0;
END;

CREATE TRIGGER handoff_unfollowed AFTER DELETE ON handoff WHEN EXISTS (SELECT 1 FROM webhook WHERE handoff = OLD.id AND handoff <> '') BEGIN
    DELETE FROM push WHERE webhook IN (SELECT id FROM webhook WHERE handoff = OLD.id AND handoff <> '');
    DELETE FROM webhook WHERE handoff = OLD.id AND handoff <> '';
END;

-- Journals: named lists of entries that links keep ------------------------------------------

CREATE TABLE journal (
    name   TEXT    NOT NULL PRIMARY KEY,
    length INTEGER NOT NULL, -- of entries; compare-and-set is on this column
    due    INTEGER NOT NULL  -- when its owner looks at it again; 0 for never
) STRICT, WITHOUT ROWID;

CREATE INDEX journal_due ON journal (due) WHERE due > 0;

CREATE TABLE journal_entry (
    journal TEXT    NOT NULL,
    n       INTEGER NOT NULL, -- from 1
    entry   BLOB    NOT NULL,
    PRIMARY KEY (journal, n)
) STRICT, WITHOUT ROWID;

-- Addresses to which what reaches an inbox is posted.
CREATE TABLE hook (
    id       TEXT    NOT NULL PRIMARY KEY,
    did      TEXT    NOT NULL,
    agent    TEXT    NOT NULL,            -- handle, of one that gets messages; '' of one that gets the inbox of did
    url      TEXT    NOT NULL,
    since    INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,  -- 0 while it is called
    why      TEXT    NOT NULL DEFAULT '', -- it is disabled
    due      INTEGER,                     -- when the first of its pushes is; NULL for none
    taken    INTEGER NOT NULL DEFAULT 0,  -- until when it is somebody's
    UNIQUE (did, url)
) STRICT, WITHOUT ROWID;

CREATE INDEX hook_agent ON hook (agent) WHERE agent <> '';
CREATE INDEX hook_due ON hook (due, taken, id) WHERE due IS NOT NULL;

-- What each is owed, and was. The rows of one lane are made in their order: the first
-- one that waits has a time, and those behind it have none until they are the first.
CREATE TABLE push (
    hook    TEXT    NOT NULL,
    item    INTEGER NOT NULL,            -- event.seq of an entry of the inbox, message.n of a message
    lane    TEXT    NOT NULL,            -- handoff; of a message without one its sender
    state   TEXT    NOT NULL DEFAULT 'waiting',
    queued  INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    next    INTEGER,                     -- NULL behind another row, and of what is over
    reason  TEXT    NOT NULL DEFAULT '', -- why the last attempt failed
    ended   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (hook, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX push_lane ON push (hook, lane, item) WHERE state = 'waiting';
CREATE INDEX push_next ON push (hook, next, item) WHERE next IS NOT NULL;
CREATE INDEX push_queued ON push (queued) WHERE state = 'waiting';
CREATE INDEX dead_link ON dead (link);

-- Triggers owe it: no write can forget to.
CREATE TRIGGER inbox_owed AFTER INSERT ON inbox WHEN EXISTS (SELECT 1 FROM hook WHERE did = NEW.did) BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.event, e.handoff, e.filed,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h JOIN event e ON e.seq = NEW.event WHERE h.did = NEW.did AND h.agent = '' AND h.disabled = 0;
END;

CREATE TRIGGER inbox_unowed AFTER DELETE ON inbox WHEN EXISTS (SELECT 1 FROM hook WHERE did = OLD.did) BEGIN
    DELETE FROM push WHERE item = OLD.event AND hook IN (SELECT id FROM hook WHERE did = OLD.did AND agent = '');
END;

CREATE TRIGGER message_owed AFTER INSERT ON message WHEN NEW.position IS NOT NULL AND EXISTS (SELECT 1 FROM hook WHERE agent = NEW.recipient AND agent <> '') BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.n, coalesce(NEW.handoff, NEW.sender), NEW.received,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = coalesce(NEW.handoff, NEW.sender) AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h WHERE h.agent = NEW.recipient AND h.agent <> '' AND h.disabled = 0;
END;

CREATE TRIGGER message_released AFTER UPDATE OF position ON message
WHEN OLD.position IS NULL AND NEW.position IS NOT NULL AND EXISTS (SELECT 1 FROM hook WHERE agent = NEW.recipient AND agent <> '') BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.n, coalesce(NEW.handoff, NEW.sender), NEW.received,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = coalesce(NEW.handoff, NEW.sender) AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h WHERE h.agent = NEW.recipient AND h.agent <> '' AND h.disabled = 0;
END;

CREATE TRIGGER message_unowed AFTER DELETE ON message WHEN EXISTS (SELECT 1 FROM hook WHERE agent = OLD.recipient AND agent <> '') BEGIN
    DELETE FROM push WHERE item = OLD.n AND hook IN (SELECT id FROM hook WHERE agent = OLD.recipient AND agent <> '');
END;

-- A hook is due when the first of its pushes is.
CREATE TRIGGER push_owed AFTER INSERT ON push WHEN NEW.next IS NOT NULL BEGIN
    UPDATE hook SET due = NEW.next WHERE id = NEW.hook AND (due IS NULL OR due > NEW.next);
END;

-- Whoever is behind one that waits no more is next.
CREATE TRIGGER push_ended AFTER UPDATE OF state ON push WHEN OLD.state = 'waiting' AND NEW.state <> 'waiting' BEGIN
    UPDATE push SET next = 0 WHERE hook = OLD.hook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE hook = OLD.hook AND lane = OLD.lane AND state = 'waiting');
END;

CREATE TRIGGER push_gone AFTER DELETE ON push WHEN OLD.state = 'waiting' BEGIN
    UPDATE push SET next = 0 WHERE hook = OLD.hook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE hook = OLD.hook AND lane = OLD.lane AND state = 'waiting');
    UPDATE hook SET due = 0 WHERE id = OLD.hook AND due IS NOT NULL;
END;

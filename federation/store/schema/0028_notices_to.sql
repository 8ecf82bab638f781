-- Notices are read by whoever they are to, from a place on, and so their numbers are never
-- given twice.
ALTER TABLE notice RENAME TO old_notice;
DROP INDEX notice_untold;
DROP INDEX notice_at;

CREATE TABLE notice (
    n      INTEGER PRIMARY KEY AUTOINCREMENT, -- order of filing
    link   TEXT    NOT NULL,    -- by which the step came, or on which the owner of a hook is told
    signer TEXT    NOT NULL,    -- of the step, or owner of the hook
    reader TEXT    NOT NULL,    -- who is told
    event  TEXT    NOT NULL,    -- id of the step, which may be in no log, or of the hook
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    next   INTEGER NOT NULL DEFAULT 0, -- not to be told before
    told   INTEGER NOT NULL DEFAULT 0,
    body   TEXT    NOT NULL,    -- the notice as JSON
    UNIQUE (signer, event, kind)
) STRICT;

INSERT INTO notice (n, link, signer, reader, event, kind, at, next, told, body)
SELECT n, link, signer, coalesce(body ->> '$.event.arrival.party', CASE body ->> '$.event.provenance' WHEN 'vouched' THEN body ->> '$.event.for' END, signer),
    event, kind, at, next, told, body FROM old_notice ORDER BY n;
DROP TABLE old_notice;

CREATE INDEX notice_untold ON notice (link, n) WHERE told = 0;
CREATE INDEX notice_at ON notice (at);
CREATE INDEX notice_reader ON notice (reader, link, n);

-- Who speaks plain HTTP is told at the hooks of their inbox too. Items of notices begin at
-- 2^52, after those of steps.
CREATE TRIGGER notice_owed AFTER INSERT ON notice WHEN NEW.link = 'rest' AND EXISTS (SELECT 1 FROM hook WHERE did = NEW.reader) BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.n + 4503599627370496, l.lane, NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = l.lane AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h JOIN (SELECT coalesce(NEW.body ->> '$.event.handoff', NEW.event) AS lane) l
    WHERE h.did = NEW.reader AND h.agent = '' AND h.disabled = 0;
END;

CREATE TRIGGER notice_unowed AFTER DELETE ON notice WHEN EXISTS (SELECT 1 FROM hook WHERE did = OLD.reader) BEGIN
    DELETE FROM push WHERE item = OLD.n + 4503599627370496 AND hook IN (SELECT id FROM hook WHERE did = OLD.reader AND agent = '');
END;

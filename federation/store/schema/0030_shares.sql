-- What waits in an inbox of the steps of one signer, so that its share is not counted
-- through for each offer. Triggers keep the sums; a row exists while something waits.
CREATE TABLE share (
    did     TEXT    NOT NULL,
    sender  TEXT    NOT NULL,
    entries INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (did, sender)
) STRICT, WITHOUT ROWID;

INSERT INTO share (did, sender, entries, size)
SELECT i.did, e.signer, count(*), sum(i.waiting) FROM inbox i JOIN event e ON e.seq = i.event
WHERE i.waiting IS NOT NULL GROUP BY i.did, e.signer;

CREATE TRIGGER inbox_shared AFTER INSERT ON inbox BEGIN
    INSERT INTO share (did, sender, entries, size) SELECT NEW.did, signer, 1, NEW.waiting FROM event WHERE seq = NEW.event
    ON CONFLICT (did, sender) DO UPDATE SET entries = entries + 1, size = size + excluded.size;
END;

CREATE TRIGGER share_read AFTER UPDATE OF waiting ON inbox WHEN OLD.waiting IS NOT NULL AND NEW.waiting IS NULL BEGIN
    UPDATE share SET entries = entries - 1, size = size - OLD.waiting
    WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event);
    DELETE FROM share WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event) AND entries = 0;
END;

CREATE TRIGGER share_pruned AFTER DELETE ON inbox WHEN OLD.waiting IS NOT NULL BEGIN
    UPDATE share SET entries = entries - 1, size = size - OLD.waiting
    WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event);
    DELETE FROM share WHERE did = OLD.did AND sender = (SELECT signer FROM event WHERE seq = OLD.event) AND entries = 0;
END;

-- The DIDs that the record met within the last hour.
CREATE TABLE newcomer (
    did TEXT    NOT NULL PRIMARY KEY,
    met INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX newcomer_met ON newcomer (met);

-- How large the record was at most once a minute: those of the last hour, and the one
-- before them.
CREATE TABLE size (
    at    INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT;

-- What waits of one user of a link, see federation.DeferralLimits.
CREATE INDEX deferred_origin ON deferred (origin);

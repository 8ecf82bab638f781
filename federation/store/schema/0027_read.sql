-- A step reaches whoever reads an inbox when they read it, which is later than it is there.
ALTER TABLE inbox ADD COLUMN ended   INTEGER NOT NULL DEFAULT 0;  -- 0 while it waits
ALTER TABLE inbox ADD COLUMN outcome TEXT    NOT NULL DEFAULT ''; -- '' while it waits; delivered, expired, or elsewhere: another delivery tells of it
ALTER TABLE inbox ADD COLUMN slow    INTEGER NOT NULL DEFAULT 0;  -- 1 when the signer was told that it takes time

-- Whether anybody was seen reading the inbox.
ALTER TABLE mailbox ADD COLUMN reads INTEGER NOT NULL DEFAULT 0;
UPDATE mailbox SET reads = 1 WHERE did IN (SELECT did FROM device);

-- What was read before counts as read when it came. Nobody noted what a link had shown:
-- only of those who have devices it is known that they read.
UPDATE inbox SET ended = e.filed,
    outcome = CASE WHEN h.state <> 'expired' AND EXISTS (SELECT 1 FROM device d WHERE d.did = inbox.did) THEN 'delivered' ELSE 'elsewhere' END
FROM event e JOIN handoff h ON h.id = e.handoff WHERE e.seq = inbox.event AND inbox.waiting IS NULL;

-- Up to which entry of all inboxes, in the order in which they came, it was looked whether
-- the signer is to be told that it takes time. Nobody is told of those of before.
CREATE TABLE looked (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    event INTEGER NOT NULL,
    did   TEXT    NOT NULL
) STRICT;

INSERT INTO looked (id, event, did) SELECT 1, seq + 1, '' FROM event ORDER BY seq DESC LIMIT 1;

DROP TRIGGER inbox_read;
CREATE TRIGGER inbox_read AFTER UPDATE OF waiting ON inbox WHEN OLD.waiting IS NOT NULL AND NEW.waiting IS NULL BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting,
        reads = CASE NEW.outcome WHEN 'delivered' THEN 1 ELSE reads END WHERE did = OLD.did;
END;

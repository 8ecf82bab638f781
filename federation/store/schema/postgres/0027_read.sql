ALTER TABLE inbox
    ADD COLUMN ended   bigint NOT NULL DEFAULT 0,
    ADD COLUMN outcome text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN slow    bigint NOT NULL DEFAULT 0;

ALTER TABLE mailbox ADD COLUMN reads bigint NOT NULL DEFAULT 0;
UPDATE mailbox SET reads = 1 WHERE did IN (SELECT did FROM device);

UPDATE inbox SET ended = e.filed,
    outcome = CASE WHEN h.state <> 'expired' AND EXISTS (SELECT 1 FROM device d WHERE d.did = inbox.did) THEN 'delivered' ELSE 'elsewhere' END
FROM event e JOIN handoff h ON h.id = e.handoff WHERE e.seq = inbox.event AND inbox.waiting IS NULL;

CREATE TABLE looked (
    id    bigint PRIMARY KEY CHECK (id = 1),
    event bigint NOT NULL,
    did   text COLLATE "C" NOT NULL
);

INSERT INTO looked (id, event, did) SELECT 1, seq + 1, '' FROM event ORDER BY seq DESC LIMIT 1;

CREATE FUNCTION inbox_ended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE mailbox SET entries = entries - 1, size = size - OLD.waiting,
        reads = CASE NEW.outcome WHEN 'delivered' THEN 1 ELSE reads END WHERE did = OLD.did;
    RETURN NULL;
END $$;
DROP TRIGGER inbox_read ON inbox;
CREATE TRIGGER inbox_read AFTER UPDATE OF waiting ON inbox FOR EACH ROW
    WHEN (OLD.waiting IS NOT NULL AND NEW.waiting IS NULL) EXECUTE FUNCTION inbox_ended();

-- Version 2 of the record in PostgreSQL. The version in the folder above says what the tables
-- are for.

-- Webhooks -------------------------------------------------------------------------------

ALTER TABLE webhook
    ADD COLUMN handoff text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN label   text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN sealed  bytea,
    DROP CONSTRAINT webhook_did_url_key,
    ADD UNIQUE (did, handoff, url, label);
ALTER TABLE webhook ALTER COLUMN handoff DROP DEFAULT, ALTER COLUMN label DROP DEFAULT;

CREATE INDEX webhook_handoff ON webhook (handoff) WHERE handoff <> '';

-- Arrivals and notices go to webhooks that follow no handoff.
CREATE OR REPLACE FUNCTION inbox_pushed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, e.seq, e.handoff, e.filed,
        CASE WHEN row_number() OVER (PARTITION BY h.id, e.handoff ORDER BY e.seq) > 1
            OR EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM arrived a JOIN webhook h ON h.did = a.did AND h.participant = '' AND h.handoff = '' AND h.disabled = 0 JOIN event e ON e.seq = a.event;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION inbox_push_dropped() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM push WHERE item = OLD.event AND webhook IN (SELECT id FROM webhook WHERE did = OLD.did AND participant = '' AND handoff = '');
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION notice_pushed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, NEW.n + 4503599627370496, l.order_key, NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = l.order_key AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM webhook h JOIN (SELECT coalesce(NEW.body -> 'event' ->> 'handoff', NEW.event) AS order_key) l ON true
    WHERE h.did = NEW.reader AND h.participant = '' AND h.handoff = '' AND h.disabled = 0;
    RETURN NULL;
END $$;

-- A webhook that follows a handoff gets each step of it, and ends with it.
CREATE FUNCTION event_pushed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (webhook, item, order_key, queued, next)
    SELECT h.id, e.seq, e.handoff, e.filed,
        CASE WHEN row_number() OVER (PARTITION BY h.id ORDER BY e.seq) > 1
            OR EXISTS (SELECT 1 FROM push p WHERE p.webhook = h.id AND p.order_key = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM filed e JOIN webhook h ON h.handoff = e.handoff AND h.handoff <> '' AND h.disabled = 0 WHERE e.version IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER event_pushed AFTER INSERT ON event REFERENCING NEW TABLE AS filed
    FOR EACH STATEMENT EXECUTE FUNCTION event_pushed();

CREATE FUNCTION handoff_unfollowed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM push WHERE webhook IN (SELECT id FROM webhook WHERE handoff = OLD.id AND handoff <> '');
    DELETE FROM webhook WHERE handoff = OLD.id AND handoff <> '';
    RETURN NULL;
END $$;
CREATE TRIGGER handoff_unfollowed AFTER DELETE ON handoff FOR EACH ROW EXECUTE FUNCTION handoff_unfollowed();

-- Journals: named lists of entries that links keep ------------------------------------------

CREATE TABLE journal (
    name   text COLLATE "C" PRIMARY KEY,
    length bigint NOT NULL,
    due    bigint NOT NULL
);

CREATE INDEX journal_due ON journal (due) WHERE due > 0;

CREATE TABLE journal_entry (
    journal text COLLATE "C" NOT NULL,
    n       bigint NOT NULL,
    entry   bytea NOT NULL,
    PRIMARY KEY (journal, n)
);

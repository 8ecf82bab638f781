ALTER TABLE notice ADD COLUMN reader text COLLATE "C";
UPDATE notice SET reader = coalesce(body -> 'event' -> 'arrival' ->> 'party', CASE body -> 'event' ->> 'provenance' WHEN 'vouched' THEN body -> 'event' ->> 'for' END, signer);
ALTER TABLE notice ALTER COLUMN reader SET NOT NULL;
CREATE INDEX notice_reader ON notice (reader, link, n);

CREATE FUNCTION notice_owed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.n + 4503599627370496, l.lane, NEW.at,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = l.lane AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h JOIN (SELECT coalesce(NEW.body -> 'event' ->> 'handoff', NEW.event) AS lane) l ON true
    WHERE h.did = NEW.reader AND h.agent = '' AND h.disabled = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER notice_owed AFTER INSERT ON notice FOR EACH ROW WHEN (NEW.link = 'rest') EXECUTE FUNCTION notice_owed();

CREATE FUNCTION notice_unowed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM push WHERE item = OLD.n + 4503599627370496 AND hook IN (SELECT id FROM hook WHERE did = OLD.reader AND agent = '');
    RETURN NULL;
END $$;
CREATE TRIGGER notice_unowed AFTER DELETE ON notice FOR EACH ROW EXECUTE FUNCTION notice_unowed();

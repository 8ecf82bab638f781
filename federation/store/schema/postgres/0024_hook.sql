CREATE TABLE hook (
    id       text COLLATE "C" PRIMARY KEY,
    did      text COLLATE "C" NOT NULL,
    agent    text COLLATE "C" NOT NULL,
    url      text COLLATE "C" NOT NULL,
    since    bigint NOT NULL,
    disabled bigint NOT NULL DEFAULT 0,
    why      text COLLATE "C" NOT NULL DEFAULT '',
    due      bigint,
    taken    bigint NOT NULL DEFAULT 0,
    UNIQUE (did, url)
);

CREATE INDEX hook_agent ON hook (agent) WHERE agent <> '';
CREATE INDEX hook_due ON hook (due, taken, id) WHERE due IS NOT NULL;

CREATE TABLE push (
    hook    text COLLATE "C" NOT NULL,
    item    bigint NOT NULL,
    lane    text COLLATE "C" NOT NULL,
    state   text COLLATE "C" NOT NULL DEFAULT 'waiting',
    queued  bigint NOT NULL,
    attempt bigint NOT NULL DEFAULT 0,
    next    bigint,
    reason  text COLLATE "C" NOT NULL DEFAULT '',
    ended   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hook, item)
);

CREATE INDEX push_lane ON push (hook, lane, item) WHERE state = 'waiting';
CREATE INDEX push_next ON push (hook, next, item) WHERE next IS NOT NULL;
CREATE INDEX push_queued ON push (queued) WHERE state = 'waiting';
CREATE INDEX dead_link ON dead (link);

CREATE FUNCTION inbox_owed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.event, e.handoff, e.filed,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h JOIN event e ON e.seq = NEW.event WHERE h.did = NEW.did AND h.agent = '' AND h.disabled = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER inbox_owed AFTER INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION inbox_owed();

CREATE FUNCTION inbox_unowed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM push WHERE item = OLD.event AND hook IN (SELECT id FROM hook WHERE did = OLD.did AND agent = '');
    RETURN NULL;
END $$;
CREATE TRIGGER inbox_unowed AFTER DELETE ON inbox FOR EACH ROW EXECUTE FUNCTION inbox_unowed();

CREATE FUNCTION message_owed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, NEW.n, coalesce(NEW.handoff, NEW.sender), NEW.received,
        CASE WHEN EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = coalesce(NEW.handoff, NEW.sender) AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM hook h WHERE h.agent = NEW.recipient AND h.agent <> '' AND h.disabled = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER message_owed AFTER INSERT ON message FOR EACH ROW WHEN (NEW.position IS NOT NULL) EXECUTE FUNCTION message_owed();
CREATE TRIGGER message_released AFTER UPDATE OF position ON message FOR EACH ROW
    WHEN (OLD.position IS NULL AND NEW.position IS NOT NULL) EXECUTE FUNCTION message_owed();

CREATE FUNCTION message_unowed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM push WHERE item = OLD.n AND hook IN (SELECT id FROM hook WHERE agent = OLD.recipient AND agent <> '');
    RETURN NULL;
END $$;
CREATE TRIGGER message_unowed AFTER DELETE ON message FOR EACH ROW EXECUTE FUNCTION message_unowed();

CREATE FUNCTION push_owed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE hook SET due = NEW.next WHERE id = NEW.hook AND (due IS NULL OR due > NEW.next);
    RETURN NULL;
END $$;
CREATE TRIGGER push_owed AFTER INSERT ON push FOR EACH ROW WHEN (NEW.next IS NOT NULL) EXECUTE FUNCTION push_owed();

CREATE FUNCTION push_ended() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE push SET next = 0 WHERE hook = OLD.hook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE hook = OLD.hook AND lane = OLD.lane AND state = 'waiting');
    RETURN NULL;
END $$;
CREATE TRIGGER push_ended AFTER UPDATE OF state ON push FOR EACH ROW
    WHEN (OLD.state = 'waiting' AND NEW.state <> 'waiting') EXECUTE FUNCTION push_ended();

CREATE FUNCTION push_gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE push SET next = 0 WHERE hook = OLD.hook AND next IS NULL AND item =
        (SELECT min(item) FROM push WHERE hook = OLD.hook AND lane = OLD.lane AND state = 'waiting');
    UPDATE hook SET due = 0 WHERE id = OLD.hook AND due IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER push_gone AFTER DELETE ON push FOR EACH ROW WHEN (OLD.state = 'waiting') EXECUTE FUNCTION push_gone();

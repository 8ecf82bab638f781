CREATE TABLE share (
    did     text COLLATE "C" NOT NULL,
    sender  text COLLATE "C" NOT NULL,
    entries bigint NOT NULL,
    size    bigint NOT NULL,
    PRIMARY KEY (did, sender)
);

INSERT INTO share (did, sender, entries, size)
SELECT i.did, e.signer, count(*), sum(i.waiting)::bigint FROM inbox i JOIN event e ON e.seq = i.event
WHERE i.waiting IS NOT NULL GROUP BY i.did, e.signer;

CREATE FUNCTION inbox_shared() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO share (did, sender, entries, size)
    SELECT a.did, e.signer, count(*), sum(a.waiting)::bigint FROM arrived a JOIN event e ON e.seq = a.event GROUP BY a.did, e.signer
    ON CONFLICT (did, sender) DO UPDATE SET entries = share.entries + excluded.entries, size = share.size + excluded.size;
    RETURN NULL;
END $$;
CREATE TRIGGER inbox_shared AFTER INSERT ON inbox REFERENCING NEW TABLE AS arrived
    FOR EACH STATEMENT EXECUTE FUNCTION inbox_shared();

CREATE FUNCTION share_ended() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE signed text; BEGIN
    SELECT signer INTO signed FROM event WHERE seq = OLD.event;
    UPDATE share SET entries = entries - 1, size = size - OLD.waiting WHERE did = OLD.did AND sender = signed;
    DELETE FROM share WHERE did = OLD.did AND sender = signed AND entries = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER share_read AFTER UPDATE OF waiting ON inbox FOR EACH ROW
    WHEN (OLD.waiting IS NOT NULL AND NEW.waiting IS NULL) EXECUTE FUNCTION share_ended();
CREATE TRIGGER share_pruned AFTER DELETE ON inbox FOR EACH ROW WHEN (OLD.waiting IS NOT NULL) EXECUTE FUNCTION share_ended();

CREATE TABLE newcomer (
    did text COLLATE "C" PRIMARY KEY,
    met bigint NOT NULL
);

CREATE INDEX newcomer_met ON newcomer (met);

CREATE TABLE size (
    at    bigint PRIMARY KEY,
    bytes bigint NOT NULL
);

-- What waits of one user of a link, see federation.DeferralLimits.
CREATE INDEX deferred_origin ON deferred (origin);

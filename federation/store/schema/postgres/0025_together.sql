-- Rows that come together are counted together: the triggers on what a step adds run once
-- for a statement, not once for a row.

DROP TRIGGER inbox_arrived ON inbox;
CREATE OR REPLACE FUNCTION inbox_arrived() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO mailbox (did, entries, size, number, event)
    SELECT did, count(*), sum(waiting)::bigint, max(number), max(event) FROM arrived GROUP BY did
    ON CONFLICT (did) DO UPDATE SET entries = mailbox.entries + excluded.entries, size = mailbox.size + excluded.size,
        number = excluded.number, event = excluded.event;
    RETURN NULL;
END $$;
CREATE TRIGGER inbox_arrived AFTER INSERT ON inbox REFERENCING NEW TABLE AS arrived
    FOR EACH STATEMENT EXECUTE FUNCTION inbox_arrived();

DROP TRIGGER inbox_owed ON inbox;
CREATE OR REPLACE FUNCTION inbox_owed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO push (hook, item, lane, queued, next)
    SELECT h.id, e.seq, e.handoff, e.filed,
        CASE WHEN row_number() OVER (PARTITION BY h.id, e.handoff ORDER BY e.seq) > 1
            OR EXISTS (SELECT 1 FROM push p WHERE p.hook = h.id AND p.lane = e.handoff AND p.state = 'waiting') THEN NULL ELSE 0 END
    FROM arrived a JOIN hook h ON h.did = a.did AND h.agent = '' AND h.disabled = 0 JOIN event e ON e.seq = a.event;
    RETURN NULL;
END $$;
CREATE TRIGGER inbox_owed AFTER INSERT ON inbox REFERENCING NEW TABLE AS arrived
    FOR EACH STATEMENT EXECUTE FUNCTION inbox_owed();

-- Triggers for a row run before those for a statement: what was goes before what is comes.
DROP TRIGGER handoff_1_pruned ON handoff;
DROP TRIGGER handoff_2_opened ON handoff;
CREATE OR REPLACE FUNCTION handoff_opened() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO party (did, state, moved, handoff)
    SELECT p.did, h.state, h.moved, h.id FROM moved h
        CROSS JOIN LATERAL (VALUES (''), (h.offerer), (h.view ->> 'offeree'), (h.view ->> 'assignee')) AS p (did)
    WHERE p.did IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER handoff_pruned AFTER DELETE OR UPDATE ON handoff FOR EACH ROW EXECUTE FUNCTION handoff_pruned();
CREATE TRIGGER handoff_opened AFTER INSERT ON handoff REFERENCING NEW TABLE AS moved
    FOR EACH STATEMENT EXECUTE FUNCTION handoff_opened();
CREATE TRIGGER handoff_moved AFTER UPDATE ON handoff REFERENCING NEW TABLE AS moved
    FOR EACH STATEMENT EXECUTE FUNCTION handoff_opened();

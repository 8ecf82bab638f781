ALTER TABLE event
    ADD COLUMN place text COLLATE "C",
    ADD COLUMN said  bigint NOT NULL DEFAULT 0;

UPDATE event SET
    place = (SELECT CASE WHEN coalesce(h.view ->> 'link', '') = '' OR h.view ->> 'venue' LIKE 'dm:%'
            THEN h.view ->> 'venue' ELSE (h.view ->> 'link') || ' ' || (h.view ->> 'venue') END
        FROM handoff h WHERE h.id = event.handoff),
    said = coalesce(nullif(greatest(floor(extract(epoch FROM (body -> 'arrival' ->> 'received')::timestamptz) * 1000)::bigint, 0) * 1000000, 0), filed)
WHERE version IS NOT NULL;

CREATE INDEX event_place ON event (place, said, seq) WHERE place IS NOT NULL;

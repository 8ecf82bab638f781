-- Where a step is written and when it was said, for those who ask what was said there.
-- A place is a venue, after the name of a link and a space where that is its only one;
-- that of a receipt, which nobody looks back at, is NULL.
ALTER TABLE event ADD COLUMN place TEXT;
ALTER TABLE event ADD COLUMN said  INTEGER NOT NULL DEFAULT 0;

UPDATE event SET
    place = (SELECT CASE WHEN coalesce(h.view ->> 'link', '') = '' OR h.view ->> 'venue' LIKE 'dm:%'
            THEN h.view ->> 'venue' ELSE (h.view ->> 'link') || ' ' || (h.view ->> 'venue') END
        FROM handoff h WHERE h.id = event.handoff),
    said = coalesce(nullif(max(CAST(round(unixepoch(body ->> '$.arrival.received', 'subsec') * 1000) AS INTEGER) * 1000000, 0), 0), filed)
WHERE version IS NOT NULL;

CREATE INDEX event_place ON event (place, said) WHERE place IS NOT NULL;

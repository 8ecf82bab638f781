-- Handoffs are listed by who takes part in them and by state, the newest movement
-- first. The DID '' takes part in all of them.
ALTER TABLE handoff ADD COLUMN moved INTEGER NOT NULL DEFAULT 0;

UPDATE handoff SET moved =
    coalesce((SELECT max(filed) FROM event WHERE event.handoff = handoff.id AND event.version = handoff.version), opened);

CREATE TABLE party (
    did     TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    moved   INTEGER NOT NULL,
    handoff TEXT    NOT NULL,
    PRIMARY KEY (did, state, moved, handoff)
) STRICT, WITHOUT ROWID;

-- Triggers keep them: no write can forget to.
CREATE TRIGGER handoff_opened AFTER INSERT ON handoff BEGIN
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER handoff_pruned AFTER DELETE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
END;

CREATE TRIGGER handoff_moved AFTER UPDATE ON handoff BEGIN
    DELETE FROM party WHERE state = OLD.state AND moved = OLD.moved AND handoff = OLD.id
        AND did IN ('', OLD.offerer, OLD.view ->> 'offeree', OLD.view ->> 'assignee');
    INSERT INTO party (did, state, moved, handoff) VALUES
        ('', NEW.state, NEW.moved, NEW.id),
        (NEW.offerer, NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'offeree', ''), NEW.state, NEW.moved, NEW.id),
        (coalesce(NEW.view ->> 'assignee', ''), NEW.state, NEW.moved, NEW.id)
    ON CONFLICT DO NOTHING;
END;

INSERT INTO party (did, state, moved, handoff)
SELECT '', state, moved, id FROM handoff
UNION SELECT offerer, state, moved, id FROM handoff
UNION SELECT view ->> 'offeree', state, moved, id FROM handoff WHERE view ->> 'offeree' IS NOT NULL
UNION SELECT view ->> 'assignee', state, moved, id FROM handoff WHERE view ->> 'assignee' IS NOT NULL;

-- People name a handoff by the end of its id.
CREATE INDEX handoff_suffix ON handoff (substr(id, -6));

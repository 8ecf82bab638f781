-- How deliveries ended, for whoever asks what became of a step.
CREATE TABLE settled (
    event INTEGER NOT NULL, -- event.seq
    link  TEXT    NOT NULL,
    state TEXT    NOT NULL, -- delivered or refused
    ended INTEGER NOT NULL,
    PRIMARY KEY (event, link)
) STRICT, WITHOUT ROWID;

-- It goes with its event, whoever deletes that.
CREATE TRIGGER event_deleted AFTER DELETE ON event BEGIN
    DELETE FROM settled WHERE event = OLD.seq;
END;

-- Names that operators bound. A name stands for one DID.
CREATE TABLE bound_name (
    network TEXT    NOT NULL, -- name of a link
    name    TEXT    NOT NULL,
    did     TEXT    NOT NULL,
    vouch   INTEGER NOT NULL, -- 1 when the gateway may sign for the DID
    since   INTEGER NOT NULL,
    PRIMARY KEY (network, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX bound_name_did ON bound_name (did, network, name);

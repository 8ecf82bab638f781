-- What homes said and were not believed in: of each kind how often, and why the last time.
CREATE TABLE doubt (
    home  text COLLATE "C" NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    times bigint NOT NULL,
    first bigint NOT NULL,
    last  bigint NOT NULL,
    why   text COLLATE "C" NOT NULL,
    PRIMARY KEY (home, kind)
);

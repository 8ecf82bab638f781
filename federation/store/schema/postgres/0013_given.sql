-- What a link was given lately is read again by whoever missed it there.
CREATE INDEX settled_link ON settled (link, state, ended, event);

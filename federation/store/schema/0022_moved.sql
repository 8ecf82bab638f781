-- The home that had the mailbox of a DID before, where an operator moved that.
ALTER TABLE residence ADD COLUMN origin TEXT NOT NULL DEFAULT '';

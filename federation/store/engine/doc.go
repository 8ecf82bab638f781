// Package engine is the database of a record: an SQLite file or a schema on PostgreSQL. It opens
// and migrates the database, reads it, and commits all writes. The sibling packages run the
// queries, each with a [Tx].
//
// [Open] and [OpenPostgres] return a [DB]. [Migrate], [Plan] and [Copy] work on a closed record.
//
// # Durability
//
// The file is in WAL mode with synchronous=FULL. A server has fsync on, and synchronous_commit for
// these connections. One goroutine makes all writes. It combines up to 128 queued writes into one
// transaction, so that many callers share one fsync, and releases them after the transaction is on
// disk. It does not wait for a batch to fill. Each write is atomic: a refused write leaves no trace
// and does not disturb the others. If the whole transaction fails, all its writes fail.
//
// While a server is unreachable, every call fails with an [*federation.UnavailableError]. A write
// in flight may have been committed; a repeated call gets the result.
//
// When the context of a write ends, its call returns at once. A write already in a batch is still
// made.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Reads use separate read-only connections,
// and see every write acknowledged before they began.
//
// Only one process at a time can open the record in a file: it locks a companion file, whose name
// ends in ".lock", until it exits. Several replicas of one home may open the record on a server.
// Their batches are serialized by a lock that ends with the transaction. Rows read by a write stay
// unchanged until it is committed, events become visible in the order of their numbers, and batches
// cannot deadlock. [DB.RunExclusive] gives a job to only one replica.
//
// # Two databases
//
// There is one set of queries, in SQL for both databases; [Dialect] has the differences. On a
// server, statements whose results no write reads are sent together: a batch takes two round trips
// if no write queries more than its [Question]. The schema of the core is in schema/ for SQLite and
// in schema/postgres for PostgreSQL. The schema of a network's tables is in the same folders of its
// own package. There is one numbered file for each version, applied in order and never edited after
// a release.
//
// Neither database has reliable statistics. Both may regard a column with many rows per value as
// selective, and read all steps of a handoff to find one step by its ID. A column that must not be
// used for the search is therefore written as an expression, which no index has:
//
//	WHERE id = ?1 AND handoff || '' = ?2
//
// A test of package store rejects the most expensive plans.
//
// # Migrations
//
// Before a migration of an older record in a file, the free disk space is checked and a copy is
// made in its folder, named "NAME.vVERSION-TIME.bak"; a server has its own backups. A migration is
// one transaction. Before it commits, the rows, events and chains are compared with the old ones. A
// record of a newer version, or of a development version older than version 1, is refused. So is a
// file without write permission or with a truncated write-ahead log.
package engine

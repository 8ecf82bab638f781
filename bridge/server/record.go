package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/backup"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Locate returns the location of the record of a configuration.
func Locate(file *configs.File) (registry.Location, error) {
	at := registry.Location{Path: file.Path(file.Store.Path)}
	if file.Store.Driver != configs.Postgres {
		return at, nil
	}
	var err error
	at.DSN, err = file.Secret(file.Store.DSNFile)
	return at, err
}

// openRecord opens the configured record, and upgrades an older one. It refuses to create a record
// in an empty database if there is one in a file, because an interrupted copy leaves both.
func openRecord(ctx context.Context, file *configs.File, reg prometheus.Registerer, log *slog.Logger) (*registry.Record, error) {
	at, err := Locate(file)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(at.Path); at.DSN != "" && err == nil && info.Size() > 0 {
		planned, err := at.Upgrade(ctx, true, time.Now(), nil)
		if err != nil {
			return nil, err
		}
		if planned.From == 0 {
			return nil, fmt.Errorf("the database of store.dsn_file is empty, and there is a record in %s: run baton migrate --to postgres, or move that file away", at.Path)
		}
	}
	write := func(line string) { log.LogAttrs(ctx, slog.LevelInfo, "record upgrade", slog.String("state", line)) }
	upgraded := func(done engine.Upgrade) { write(done.Sentence(false, at.DSN == "")) }
	return at.Open(ctx, reg, engine.Upgrading(engine.Lines(write), upgraded))
}

func recordFiles(file *configs.File) []string {
	paths := []string{file.Path(".")}
	if file.Store.Driver != configs.Postgres {
		record := file.Path(file.Store.Path)
		paths = append(paths, record, record+"-wal", record+"-shm")
	}
	return paths
}

// Examination has the rules for the commands that examine a record. It implements [fsck.Rules].
type Examination struct{}

// Replay implements [fsck.Rules].
func (Examination) Replay(before federation.View, step federation.Entry, home federation.HomeID) (federation.View, error) {
	return lifecycle.Shipped().Follow(before, step, home)
}

// Verify implements [fsck.Rules].
func (Examination) Verify(ctx context.Context, ev federation.Event) error {
	return signing.VerifyAgain(ctx, ev, identity.ParseKeyDID)
}

// VerifyText implements [fsck.Rules].
func (Examination) VerifyText(t federation.Text) error {
	return signing.VerifyText(t, identity.ParseKeyDID)
}

// BackupSource returns the files of a backup.
func BackupSource(file *configs.File) backup.Source {
	s := backup.Source{Home: file.Home.Name, Record: file.Path(file.Store.Path), Config: file.Name(), Keys: KeyFolder(file).Dir}
	if file.Store.Driver == configs.Postgres {
		s.Record = ""
	}
	return s
}

// RestoreTarget returns the target of a restore into a configuration.
func RestoreTarget(file *configs.File) backup.Target {
	return backup.Target{Source: BackupSource(file), Dir: file.Path("."), Driver: file.Store.Driver}
}

// Retention has the lifetimes of rows. Zero means forever.
type Retention struct {
	Chat         time.Duration // lines of chat in the history of the listener
	Messages     time.Duration // unread private text
	Undelivered  time.Duration // deliveries, and unread steps
	Finished     time.Duration
	AIRCMessages time.Duration
	IDs          time.Duration // IDs of deleted steps
	Dead         time.Duration
}

const pruneEvery = time.Minute

// pruneBatch bounds the rows deleted by one write, which may delay a filing by a few milliseconds.
const pruneBatch = 32

// answersKept is the lifetime of responses to requests with an idempotency key. It is longer than
// clients retry.
const answersKept = 24 * time.Hour

func (g *Gateway) retain(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		g.retainOnce(ctx, *g.retention.Load(), g.deps.Clock.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (g *Gateway) retainOnce(ctx context.Context, keep Retention, now time.Time) {
	if keep.Undelivered > 0 {
		if err := g.endUnread(ctx, now.Add(-keep.Undelivered), now); err != nil && ctx.Err() == nil {
			g.deps.Log.LogAttrs(ctx, slog.LevelError, "undelivered steps not ended", slog.Any("err", err))
		}
	}
	gone, err := Prune(ctx, g.deps.Record.Record, keep, now)
	if gone != (Pruned{}) {
		g.deps.Log.LogAttrs(ctx, slog.LevelInfo, "record pruned",
			slog.Int("handoffs", gone.Handoffs), slog.Int("messages", gone.Messages), slog.Int("ids", gone.IDs), slog.Int("dead_letters", gone.DeadLetters))
	}
	if err != nil && ctx.Err() == nil {
		g.deps.Log.LogAttrs(ctx, slog.LevelError, "record not pruned", slog.Any("err", err))
	}
}

// Pruned counts deleted rows.
type Pruned struct{ Handoffs, Messages, IDs, DeadLetters int }

// Prune deletes expired rows from a record, in batches. Rows deleted before an error stay deleted.
func Prune(ctx context.Context, record *registry.Record, keep Retention, now time.Time) (gone Pruned, err error) {
	if keep.Finished > 0 {
		gone.Handoffs, err = byCursor(func(after federation.Cursor) (int, federation.Cursor, error) {
			return record.Prune(ctx, now.Add(-keep.Finished), now, after, pruneBatch)
		})
		if err != nil {
			return gone, fmt.Errorf("finished handoffs: %w", err)
		}
	}
	if err = pruneText(ctx, record, keep, now); err != nil {
		return gone, err
	}
	if keep.AIRCMessages > 0 {
		gone.Messages, err = byCursor(func(after federation.Cursor) (int, federation.Cursor, error) {
			return record.PruneMessages(ctx, now.Add(-keep.AIRCMessages), after, pruneBatch)
		})
		if err != nil {
			return gone, fmt.Errorf("AIRC messages: %w", err)
		}
	}
	if keep.IDs > 0 {
		gone.IDs, err = inBatches(func(limit int) (int, error) { return record.PruneIDs(ctx, now.Add(-keep.IDs), limit) })
		if err != nil {
			return gone, fmt.Errorf("spent ids: %w", err)
		}
	}
	if _, err := inBatches(func(limit int) (int, error) { return record.PruneAnswers(ctx, now.Add(-answersKept), limit) }); err != nil {
		return gone, fmt.Errorf("answers: %w", err)
	}
	if keep.Dead > 0 {
		if gone.DeadLetters, err = pruneDeadLetters(ctx, record, now.Add(-keep.Dead)); err != nil {
			return gone, err
		}
	}
	if _, err := inBatches(func(limit int) (int, error) { return record.PruneBlobs(ctx, now, limit) }); err != nil {
		return gone, fmt.Errorf("blobs: %w", err)
	}
	return gone, err
}

// pruneText prunes the chat history last, because it has copies of lines and messages. Channel
// lines are kept only as long as duplicates may arrive.
func pruneText(ctx context.Context, record *registry.Record, keep Retention, now time.Time) error {
	if keep.Chat > 0 {
		if _, err := inBatches(func(limit int) (int, error) { return record.PruneLines(ctx, now.Add(-keep.Chat), limit) }); err != nil {
			return fmt.Errorf("history of chat: %w", err)
		}
	}
	if keep.Messages > 0 {
		if _, err := inBatches(func(limit int) (int, error) { return record.PruneChat(ctx, now.Add(-keep.Messages), limit) }); err != nil {
			return fmt.Errorf("lines of channels: %w", err)
		}
	}
	if keep.Finished > 0 {
		if _, err := inBatches(func(limit int) (int, error) { return record.PruneConversations(ctx, now.Add(-keep.Finished), limit) }); err != nil {
			return fmt.Errorf("messages: %w", err)
		}
	}
	return nil
}

func pruneDeadLetters(ctx context.Context, record *registry.Record, before time.Time) (deadLetters int, err error) {
	deadLetters, err = inBatches(func(limit int) (int, error) { return record.PruneDead(ctx, before, limit) })
	if err != nil {
		return deadLetters, fmt.Errorf("dead letters: %w", err)
	}
	if _, err = inBatches(func(limit int) (int, error) { return record.PruneNotices(ctx, before, limit) }); err != nil {
		return deadLetters, fmt.Errorf("notices: %w", err)
	}
	return deadLetters, nil
}

func byCursor(batch func(after federation.Cursor) (int, federation.Cursor, error)) (gone int, err error) {
	var after federation.Cursor
	for {
		n, next, err := batch(after)
		gone += n
		if err != nil || next == "" {
			return gone, err
		}
		after = next
	}
}

const maxUnprovedNamed = 20

// LogUnproved warns the operator about agents with unproved keys. Their did:keys reach no agent; an
// upgrade may have lost DIDs of agents.
func LogUnproved(ctx context.Context, record *registry.Record, log *slog.Logger) error {
	handles, total, err := record.Unproved(ctx, time.Now(), maxUnprovedNamed)
	if err != nil {
		return fmt.Errorf("look for agents without a proved key: %w", err)
	}
	if total > 0 {
		log.LogAttrs(ctx, slog.LevelWarn, "agents registered keys without proof; they do not receive messages for the did:keys of these keys",
			slog.Int("agents", total), slog.Any("handles", handles))
	}
	return nil
}

// inBatches repeats batch until it processes fewer than pruneBatch rows, and returns the sum.
func inBatches(batch func(limit int) (int, error)) (done int, err error) {
	for {
		n, err := batch(pruneBatch)
		done += n
		if err != nil || n < pruneBatch {
			return done, err
		}
	}
}

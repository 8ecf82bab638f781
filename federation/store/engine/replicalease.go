package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The server drops a disconnected replica after tcpSilence, which frees its leases. By then the
// replica has already given them up; leaseGrace is the margin. Together they are less than five
// seconds.
const (
	leaseLook    = 500 * time.Millisecond // interval of checks for free leases
	leaseAnswer  = 2 * time.Second        // timeout after which the server counts as unreachable
	leaseGrace   = 500 * time.Millisecond // delay between the release of a lease and the start of its new holder
	leaseConnect = 10 * time.Second       // including the check of the server's settings
)

// The server ends a connection after two silent seconds if it does not answer for one more.
// This has no effect on a socket of the same machine.
const tcpSilence = `SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 1; SET tcp_user_timeout = 3000`

// A lease is a session lock, in a separate number space from lockWriters. The end of the session,
// for any reason, releases it.
const (
	takeDuty = `SELECT pg_try_advisory_lock(hashtextextended(current_schema() || ' ' || $1, 0))`
	freeDuty = `SELECT pg_advisory_unlock(hashtextextended(current_schema() || ' ' || $1, 0))`
)

// RunExclusive calls do each time this replica gets a lease, until ctx ends, and returns the cause
// of ctx. The context of do ends with ctx, or when the lease is lost: then do has half a second to
// return before another replica may begin. Concurrent calls for one lease within one replica share
// it. A replica that ends frees its leases at once, and one cut off from the record within three
// seconds. Another replica gets them at most two seconds later.
func (s *DB) RunExclusive(ctx context.Context, name string, do func(context.Context)) error {
	if s.leases == nil { // no other process has the file open
		do(ctx)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.leases.runExclusive(ctx, name, do)
}

// One connection holds all locks of this replica, and one goroutine owns that connection.
type replicaLeases struct {
	connect func(ctx context.Context) (*pgx.Conn, error)
	stop    context.CancelFunc
	stopped chan struct{}
	first   chan struct{} // holds a token once a lease is requested

	mu     sync.Mutex
	wanted map[string]*replicaLease
}

type replicaLease struct {
	callers int
	locked  time.Time // start of exclusive ownership, or zero
	begun   bool
	// The channel ours is closed when the lease begins, and lost when it ends.
	ours, lost chan struct{}
}

func newReplicaLease() *replicaLease {
	return &replicaLease{ours: make(chan struct{}), lost: make(chan struct{})}
}

// It connects when the first lease is requested.
func openReplicaLeases(ctx context.Context, connect func(context.Context) (*pgx.Conn, error)) *replicaLeases {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &replicaLeases{connect: connect, stop: stop, stopped: make(chan struct{}), first: make(chan struct{}, 1), wanted: map[string]*replicaLease{}}
	go d.run(ctx)
	return d
}

// Close releases all leases.
func (d *replicaLeases) Close() error {
	d.stop()
	<-d.stopped
	return nil
}

func (d *replicaLeases) runExclusive(ctx context.Context, name string, do func(context.Context)) error {
	for ctx.Err() == nil {
		mine := d.want(name)
		select {
		case <-mine.ours:
			mine.during(ctx, do)
		case <-mine.lost:
		case <-ctx.Done():
		}
		d.leave(name, mine)
	}
	return context.Cause(ctx)
}

func (mine *replicaLease) during(ctx context.Context, do func(context.Context)) {
	doing, end := context.WithCancel(ctx)
	defer end()
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-mine.lost:
			end()
		case <-doing.Done():
		}
	}()
	do(doing)
	<-doing.Done()
	<-over
}

func (d *replicaLeases) want(name string) *replicaLease {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted[name] == nil {
		d.wanted[name] = newReplicaLease()
	}
	d.wanted[name].callers++
	select {
	case d.first <- struct{}{}:
	default: // one token is enough
	}
	return d.wanted[name]
}

// The next check releases the lock.
func (d *replicaLeases) leave(name string, mine *replicaLease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if mine.callers--; mine.callers == 0 && mine.locked.IsZero() && d.wanted[name] == mine {
		delete(d.wanted, name)
	}
}

// It starts when the first lease is requested.
func (d *replicaLeases) run(ctx context.Context) {
	defer close(d.stopped)
	select {
	case <-d.first:
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		d.session(ctx)
		pause(ctx, leaseLook)
	}
}

func (d *replicaLeases) session(ctx context.Context) {
	conn, err := d.dial(ctx)
	for err == nil && ctx.Err() == nil {
		err = d.look(ctx, conn)
	}
	d.loseAll()
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // it may already be closed
	}
}

func (d *replicaLeases) dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseConnect)
	defer cancel()
	return d.connect(ctx)
}

// An error means that the connection and all leases are lost, which the wait detects at once.
func (d *replicaLeases) look(ctx context.Context, conn *pgx.Conn) error {
	asked, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	if err := conn.Ping(asked); err != nil {
		return err
	}
	for name, mine := range d.each() {
		if err := d.lookAt(ctx, conn, name, mine); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, d.rest())
	defer cancel()
	_, err := conn.WaitForNotification(waiting) // no replica sends notifications: the wait detects a lost connection
	if pgconn.Timeout(err) {
		return nil
	}
	return err
}

// This is the time until the next check, or until the next lease may begin.
func (d *replicaLeases) rest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := leaseLook
	for _, mine := range d.wanted {
		if !mine.locked.IsZero() && !mine.begun {
			rest = min(rest, max(leaseGrace-time.Since(mine.locked), time.Millisecond))
		}
	}
	return rest
}

func (d *replicaLeases) each() map[string]*replicaLease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.wanted)
}

func (d *replicaLeases) lookAt(ctx context.Context, conn *pgx.Conn, name string, mine *replicaLease) error {
	ctx, cancel := context.WithTimeout(ctx, leaseAnswer)
	defer cancel()
	var free bool
	switch d.next(name, mine) {
	case leaseGiven:
		return conn.QueryRow(ctx, freeDuty, name).Scan(&free)
	case leaseWanted:
		err := conn.QueryRow(ctx, takeDuty, name).Scan(&free)
		if err == nil && free {
			d.mu.Lock()
			defer d.mu.Unlock()
			mine.locked = time.Now()
		}
		return err
	case leaseOurs:
	}
	return nil
}

type leaseState int

const (
	leaseWanted leaseState = iota // must be acquired
	leaseOurs                     // nothing
	leaseGiven                    // no longer requested: must be released
)

// When the lease becomes valid, its callers start. A caller that requests a lease during its
// release waits for a new lease of the same name.
func (d *replicaLeases) next(name string, mine *replicaLease) leaseState {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case mine.locked.IsZero():
		return leaseWanted
	case mine.callers == 0:
		delete(d.wanted, name)
		return leaseGiven
	case !mine.begun && time.Since(mine.locked) >= leaseGrace:
		mine.begun = true
		close(mine.ours)
	}
	return leaseOurs
}

// A caller that still needs a lease waits for a new one with its name.
func (d *replicaLeases) loseAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, mine := range d.wanted {
		if mine.locked.IsZero() {
			continue // still requested
		}
		close(mine.lost)
		delete(d.wanted, name)
	}
}

func pause(ctx context.Context, long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package main_test

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"

	main "github.com/baton-gateway/baton/cmd/baton"
)

// deathVar tells a program of this binary at which point to die: the name of a point,
// a colon, and the count of visits to it. The program itself knows nothing of it: the
// points are commits, which SQLite's own hooks show, and lines of the log.
const deathVar = "BATON_TEST_DEATH"

// The points inside the program.
const (
	whileFiling   = "filing"   // the step is written, and its transaction not committed
	whenFiled     = "filed"    // it is committed; no waiter was woken and no answer sent yet
	whileWoken    = "woken"    // up to two milliseconds later: somewhere on the way to the link
	whileSettling = "settling" // it is delivered, and what says so is not committed
	whileReading  = "reading"  // it is handed to its agent, and what says so is not committed

	whileMigrating = "migrating" // the tables of an older record are made again, and that is not committed
	whileErasing   = "erasing"   // handoffs are erased, their private text is too, and that is not committed
)

// changes returns which changes of which table make a transaction of each point.
func changes() map[string][]change {
	return map[string][]change{
		whileFiling:   {{table: "event", op: sqliteInsert}},
		whileSettling: {{table: "delivery", op: sqliteUpdate, state: "delivered"}, {table: "document", op: sqliteDelete}},
		whileReading:  {{table: "message", op: sqliteUpdate}, {table: "agent", op: sqliteUpdate}, {table: "inbox", op: sqliteUpdate}},

		whileMigrating: {{table: "webhook", op: sqliteInsert}},
		whileErasing:   {{table: "mention", op: sqliteDelete}},
	}
}

type change struct {
	table string
	op    int32
	state string // that a value of the row becomes; "" for any change
}

// is reports whether a change of a row is this one.
func (c change) is(data sqlite.SQLitePreUpdateData) bool {
	if data.TableName != c.table || data.Op != c.op || c.state == "" {
		return data.TableName == c.table && data.Op == c.op
	}
	values := make([]any, data.Count())
	if err := data.New(values...); err != nil {
		panic(err)
	}
	return slices.Contains(values, any(c.state))
}

// Kinds of change, as SQLite numbers them.
const (
	sqliteDelete = 9
	sqliteInsert = 18
	sqliteUpdate = 23
)

// mortal is the program, which dies at the point in its environment.
func mortal() {
	point, n, _ := strings.Cut(os.Getenv(deathVar), ":")
	times, err := strconv.Atoi(cmp.Or(n, "1"))
	if err != nil {
		panic(err)
	}
	d := &death{point: point}
	d.left.Store(int64(times))
	if wanted, ok := changes()[point]; ok {
		sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
			d.watch(conn.(sqlite.HookRegisterer), wanted) //nolint:forcetypeassert // a driver without hooks is no use here
			return nil
		})
	}
	main.Run(&panicWriter{Writer: d.log(os.Stderr), text: os.Getenv(panicVar), over: map[string]bool{}})
}

// death is the end of one program.
type death struct {
	point string
	left  atomic.Int64 // times to get there
}

// here ends the program when this was the time.
func (d *death) here() {
	if d.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal is there
	}
}

// watch dies at a commit of a transaction with a change of a kind. One connection is
// used by one goroutine at a time.
func (d *death) watch(conn sqlite.HookRegisterer, wanted []change) {
	changed := false
	conn.RegisterPreUpdateHook(func(data sqlite.SQLitePreUpdateData) {
		for _, w := range wanted {
			changed = changed || w.is(data)
		}
	})
	conn.RegisterRollbackHook(func() { changed = false })
	conn.RegisterCommitHook(func() int32 {
		if changed {
			d.here()
		}
		changed = false
		return 0
	})
}

// log returns a writer that dies before, or soon after, the line of a judged step.
func (d *death) log(to io.Writer) io.Writer {
	switch d.point {
	case whenFiled:
		return lineWriter{to, d.here}
	case whileWoken:
		return lineWriter{to, func() {
			wait := time.Duration(time.Now().UnixNano()%2000) * time.Microsecond
			time.AfterFunc(wait, d.here)
		}}
	}
	return to
}

// lineWriter calls a function for each line of a filed step. Each line of
// the log is one write.
type lineWriter struct {
	to io.Writer
	at func()
}

func (w lineWriter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"msg":"step judged"`)) && bytes.Contains(line, []byte(`"outcome":"filed"`)) {
		w.at()
	}
	return w.to.Write(line)
}

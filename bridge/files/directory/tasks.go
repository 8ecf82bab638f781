package directory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/translate/taskfile"
)

// A claim older than claimAge is undone. A change takes far less time.
const claimAge = 10 * time.Second

const (
	extension   = ".json"
	claimPrefix = ".claim-"
)

// minPrefix is the minimum length of a task_id prefix that names a record.
const minPrefix = 4

// NotFoundError is returned if no record has an ID.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("no record begins with %q", e.ID) }

// AmbiguousError is returned for an ID too short to name one record.
type AmbiguousError struct {
	ID         string
	Candidates []string
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	if len(e.Candidates) == 0 {
		return fmt.Sprintf("%q is too short: give at least %d characters", e.ID, minPrefix)
	}
	return fmt.Sprintf("%q names several records: %s", e.ID, strings.Join(e.Candidates, ", "))
}

// RefusedError is the reason why a record was not changed.
type RefusedError struct{ Why string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Why }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Tasks is a ".handoffs" directory, with the verbs of the minimal handoff protocol. It needs no
// gateway.
//
// Many programs may use the directory at the same time. A change claims its record first: it
// renames ID.json to .claim-ID-AGENT, which only one program can do. The reference implementation
// claims nothing. If it writes during a change, its write wins, and the change is lost with an
// error. A claim of a killed program is undone after ten seconds.
type Tasks struct{ Path string }

// Task is a record with the bytes of its file.
type Task struct {
	taskfile.Record

	Raw []byte
}

// OddRecord is an invalid record file.
type OddRecord struct {
	Name string
	Err  error
}

// IsRecord reports whether a file name is that of a record.
func IsRecord(name string) bool {
	return strings.HasSuffix(name, extension) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_")
}

// IsClaim reports whether a file name is that of a claim.
func IsClaim(name string) bool { return strings.HasPrefix(name, claimPrefix) }

// PathOf returns the file of a record.
func (d Tasks) PathOf(id string) string { return filepath.Join(d.Path, id+extension) }

// Read reads one record by its file name. Its error wraps [fs.ErrNotExist] or
// [taskfile.ErrUnreadable], or is a [*OddError].
func (d Tasks) Read(name string) (Task, error) {
	raw, err := Read(filepath.Join(d.Path, name), taskfile.MaxBytes)
	if err != nil {
		return Task{}, err
	}
	r, err := taskfile.Read(raw)
	if err == nil && r.ID+extension != name {
		err = fmt.Errorf("%w: task_id is %q", taskfile.ErrUnreadable, r.ID)
	}
	return Task{r, raw}, err
}

// List returns all records ordered by name, and the invalid files.
func (d Tasks) List() ([]Task, []OddRecord, error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, nil, err
	}
	var items []Task
	var odd []OddRecord
	for _, entry := range entries {
		if !IsRecord(entry.Name()) {
			continue
		}
		item, err := d.Read(entry.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is being changed
		case err != nil:
			odd = append(odd, OddRecord{entry.Name(), err})
		default:
			items = append(items, item)
		}
	}
	return items, odd, nil
}

// Find returns the ID of the only record with the given prefix.
func (d Tasks) Find(prefix string) (string, error) {
	if len(prefix) < minPrefix {
		return "", &AmbiguousError{ID: prefix}
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return "", err
	}
	var found []string
	for _, entry := range entries {
		id := strings.TrimSuffix(entry.Name(), extension)
		switch {
		case strings.HasPrefix(entry.Name(), claimPrefix+prefix):
			return "", refused("a record that begins with %q is being changed by another agent: %s", prefix, entry.Name())
		case !IsRecord(entry.Name()) || !strings.HasPrefix(id, prefix):
		case id == prefix:
			return id, nil
		default:
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", &NotFoundError{prefix}
	case 1:
		return found[0], nil
	}
	return "", &AmbiguousError{prefix, found}
}

// The name never has the suffix of a record's file name.
func claimName(id, agent string) string {
	safe := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, agent)
	return claimPrefix + id + "-" + safe[:min(len(safe), 64)]
}

// Change changes one record for an agent. If several changes run concurrently, all but one fail
// with a [*RefusedError]. A change refused by the record also fails with it. After a nil error the
// change is on disk.
func (d Tasks) Change(id, agent string, change func(taskfile.Record) (taskfile.Record, error)) (Task, error) {
	path, claim := d.PathOf(id), filepath.Join(d.Path, claimName(id, agent))
	switch err := Move(path, claim); {
	case errors.Is(err, fs.ErrNotExist):
		return Task{}, d.absent(id)
	case errors.Is(err, fs.ErrExist):
		return Task{}, refused("%s is being changed by another program of %s", id, agent)
	case err != nil:
		return Task{}, err
	}
	item, err := d.Read(filepath.Base(claim))
	if errors.Is(err, taskfile.ErrUnreadable) && item.ID == id {
		err = nil // the name is that of the claim
	}
	if err == nil {
		item.Record, err = change(item.Record)
	}
	if err != nil {
		return item, errors.Join(err, putBack(claim, path))
	}
	item.Raw = item.Bytes()
	return item, d.finish(id, claim, item.Raw)
}

func (d Tasks) absent(id string) error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), claimPrefix+id+"-") {
			return refused("%s is being changed by another agent: %s", id, entry.Name())
		}
	}
	if _, err := os.Lstat(d.PathOf(id)); err == nil {
		return refused("%s was changed by another agent just now", id)
	}
	return &NotFoundError{id}
}

// putBack undoes a claim, unless another program has written the record since.
func putBack(claim, path string) error {
	err := Move(claim, path)
	if errors.Is(err, fs.ErrExist) {
		err = os.Remove(claim)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was undone by another program
	}
	return err
}

func (d Tasks) finish(id, claim string, content []byte) error {
	if _, err := os.Lstat(claim); err != nil {
		return refused("%s: the claim took too long and was undone by another program", id)
	}
	err := Create(d.PathOf(id), content, 0o644)
	if errors.Is(err, fs.ErrExist) {
		_ = os.Remove(claim)
		return refused("%s was written by another agent at the same time", id)
	}
	if err != nil {
		return errors.Join(err, putBack(claim, d.PathOf(id)))
	}
	if err := os.Remove(claim); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Recover undoes the claims of killed programs.
func (d Tasks) Recover(now time.Time) error {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), claimPrefix) {
			continue
		}
		stamp, err := Stat(filepath.Join(d.Path, entry.Name()))
		if err != nil || now.Sub(time.Unix(0, stamp.Changed)) < claimAge {
			continue
		}
		item, _ := d.Read(entry.Name()) // an error means that the name is not a task_id
		if item.ID == "" || !strings.HasPrefix(entry.Name(), claimPrefix+item.ID+"-") {
			continue
		}
		if err := putBack(filepath.Join(d.Path, entry.Name()), d.PathOf(item.ID)); err != nil {
			return fmt.Errorf("undo %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// Create writes a new record. It creates the directory if there is none.
func (d Tasks) Create(r taskfile.Record) (Task, error) {
	if err := os.MkdirAll(d.Path, 0o755); err != nil { //nolint:gosec // G301: agents of other users share it
		return Task{}, err
	}
	item := Task{r, r.Bytes()}
	return item, Create(d.PathOf(r.ID), item.Raw, 0o644)
}

// Offer creates a task.
func (d Tasks) Offer(from, to, description, context string, now time.Time) (Task, error) {
	var u [16]byte
	_, _ = rand.Read(u[:]) // it never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	r, err := taskfile.New(id, from, to, description, context, now)
	if err != nil {
		return Task{}, err
	}
	return d.Create(r)
}

// OfferAgain offers a failed task again, under its ID.
func (d Tasks) OfferAgain(id, agent string, now time.Time) (Task, error) {
	return d.Change(id, agent, func(r taskfile.Record) (taskfile.Record, error) { return moved(r, taskfile.Offered, now) })
}

// Accept takes an offered task for an agent.
func (d Tasks) Accept(id, agent string, now time.Time) (Task, error) {
	return d.Change(id, agent, func(r taskfile.Record) (taskfile.Record, error) {
		if r.To != "" && r.To != agent {
			return r, refused("%s is for %s", r.ID, r.To)
		}
		r, err := moved(r, taskfile.Accepted, now)
		return r.For(agent), err
	})
}

// End moves a task to another state: rejected, completed or failed.
func (d Tasks) End(id, agent string, to taskfile.Status, now time.Time) (Task, error) {
	return d.Change(id, agent, func(r taskfile.Record) (taskfile.Record, error) {
		if agent != "" && r.To != "" && r.To != agent {
			return r, refused("%s is with %s", r.ID, r.To)
		}
		return moved(r, to, now)
	})
}

func moved(r taskfile.Record, to taskfile.Status, now time.Time) (taskfile.Record, error) {
	if !r.Status.Leads(to) {
		return r, refused("%s is %s, and cannot become %s", r.ID, r.Status, to)
	}
	return r.Moved(to, now), nil
}

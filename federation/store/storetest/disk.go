package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Disk lies between SQLite and the files of one folder. It notes their writes and syncs, and can fail.
type Disk struct {
	dir string

	mu    sync.Mutex
	names map[uintptr]string // of open files
	found map[string]bool    // files whose first content is noted
	done  []Deed
	fails func(Deed) int32
}

// DeedKind is the kind of a [Deed].
type DeedKind int

// The operations on a file, except Mark.
const (
	Found DeedKind = iota // the content of a file before its first write
	Write
	Truncate
	Sync
	Remove
	Mark // an event of the test, between two operations
)

// Deed is one operation on a file, or an event of the test.
type Deed struct {
	Kind DeedKind
	Name string // of the file, without its folder
	At   int64  // offset of a write, new length of a file, or number of a mark
	Data []byte
}

// Mount puts a disk below a folder until Unmount. SQLite opens every file of the process by way of the
// disks from then on; files of other folders are passed on.
func Mount(dir string) *Disk {
	disks := allDisks()
	d := &Disk{dir: dir, names: map[uintptr]string{}, found: map[string]bool{}, fails: noFault}
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.mounted[dir] = d
	return d
}

// Unmount passes on the files that are opened later.
func (d *Disk) Unmount() {
	disks := allDisks()
	disks.mu.Lock()
	defer disks.mu.Unlock()
	if disks.mounted[d.dir] == d {
		delete(disks.mounted, d.dir)
	}
}

func noFault(Deed) int32 { return sqlite3.SQLITE_OK }

// FailWith calls a function before each later operation. If it does not return SQLITE_OK, the operation
// is not done and fails with that code. A nil function ends the faults.
func (d *Disk) FailWith(fails func(Deed) (code int32)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails = fails; fails == nil {
		d.fails = noFault
	}
}

// Mark notes an event of the test.
func (d *Disk) Mark(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, Deed{Kind: Mark, At: int64(n)})
}

// Done returns all deeds, in order.
func (d *Disk) Done() []Deed {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clip(d.done)
}

// do notes an operation and does it, unless it is to fail.
func (d *Disk) do(one Deed, really func() int32) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if code := d.fails(one); code != sqlite3.SQLITE_OK {
		return code
	}
	d.done = append(d.done, one)
	return really()
}

// sector is the unit that a disk writes completely or not at all, in bytes.
const sector = 512

// Crash writes into a folder a possible state of a disk after a power failure: the synced content of
// each file, and any of the other sectors.
func Crash(done []Deed, random *rand.Rand, dir string) error {
	files := map[string][]byte{}
	synced, folder := certainties(done)
	for i, one := range done {
		last, ever := synced[one.Name]
		certain := ever && i <= last
		if one.Kind == Remove {
			certain = i <= folder
		}
		if one.Kind != Mark {
			files[one.Name] = one.after(files[one.Name], certain, random)
		}
	}
	for name, content := range files {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// certainties returns the last sync of each file, and of the folder: SQLite syncs the folder with the
// first sync of a log or journal that it created.
func certainties(done []Deed) (synced map[string]int, folder int) {
	synced, folder = map[string]int{}, -1
	made := map[string]bool{}
	for i, one := range done {
		switch one.Kind {
		case Sync:
			synced[one.Name] = i
			if made[one.Name] && one.Name != filepath.Base(pathIn("")) {
				folder = i
			}
			made[one.Name] = false
		case Remove:
			made[one.Name] = true
		case Write:
			if _, ever := synced[one.Name]; !ever {
				made[one.Name] = true
			}
		case Found, Truncate, Mark:
		}
	}
	return synced, folder
}

// after returns the content of a file after an operation that is on disk for certain, or perhaps in part.
func (one Deed) after(content []byte, certain bool, random *rand.Rand) []byte {
	there := func() bool { return certain || random.IntN(2) == 0 }
	switch one.Kind {
	case Found:
		return bytes.Clone(one.Data)
	case Write:
		for begin := 0; begin < len(one.Data); begin += sector {
			end := min(begin+sector, len(one.Data))
			if there() {
				content = append(content, make([]byte, max(0, int(one.At)+end-len(content)))...)
				copy(content[int(one.At)+begin:], one.Data[begin:end])
			}
		}
	case Truncate:
		if there() && int(one.At) < len(content) {
			content = content[:one.At]
		}
	case Remove:
		if there() {
			return nil
		}
	case Sync, Mark:
	}
	return content
}

// disks is the way of SQLite to the files of this process.
type disks struct {
	vfs, below *sqlite3.Tsqlite3_vfs
	kept       []any // functions that SQLite calls

	mu      sync.Mutex
	mounted map[string]*Disk
	open    map[uintptr]*Disk    // by file
	methods map[uintptr]*methods // by the table of SQLite's own that they replace
}

type methods struct {
	sqlite3.Tsqlite3_io_methods
	own *sqlite3.Tsqlite3_io_methods
}

// allDisks registers the disks once. They stay until the process ends.
//
//nolint:gochecknoglobals // SQLite has one default for a process
var allDisks = sync.OnceValue(func() *disks {
	tls := libc.NewTLS()
	below := sqlite3.Xsqlite3_vfs_find(tls, 0)
	d := &disks{below: to[sqlite3.Tsqlite3_vfs](below), mounted: map[string]*Disk{}, open: map[uintptr]*Disk{}, methods: map[uintptr]*methods{}}
	name, err := libc.CString("disks of tests")
	if err != nil {
		panic(err)
	}
	d.vfs = allocate[sqlite3.Tsqlite3_vfs](tls)
	*d.vfs = *d.below
	d.vfs.FpNext, d.vfs.FzName, d.vfs.FxOpen, d.vfs.FxDelete = 0, name, d.function(d.openFile), d.function(d.removeFile)
	if code := sqlite3.Xsqlite3_vfs_register(tls, address(d.vfs), 1); code != sqlite3.SQLITE_OK {
		panic(fmt.Sprintf("register: %d", code))
	}
	return d
})

// allocate returns memory of C, which is never freed.
func allocate[T any](tls *libc.TLS) *T {
	var zero T
	return to[T](libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(zero))))
}

// to, address, call and [disks.function] cross between Go and translated C, in which a pointer is a
// number, and so is a function.
func to[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func call[F any](f uintptr) F { return *(*F)(unsafe.Pointer(&f)) }

// function keeps a function from the garbage collector, which does not see numbers.
func (d *disks) function(f any) uintptr {
	d.kept = append(d.kept, f)
	return (*[2]uintptr)(unsafe.Pointer(&f))[1]
}

func (d *disks) openFile(tls *libc.TLS, _, path, file uintptr, flags int32, out uintptr) int32 {
	code := call[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](d.below.FxOpen)(tls, address(d.below), path, file, flags, out)
	if code != sqlite3.SQLITE_OK || path == 0 {
		return code
	}
	full := libc.GoString(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	on := d.mounted[filepath.Dir(full)]
	if on == nil {
		return code
	}
	if err := on.opened(full, file); err != nil {
		return sqlite3.SQLITE_CANTOPEN
	}
	d.open[file] = on
	table := &to[sqlite3.Tsqlite3_file](file).FpMethods
	m := d.methods[*table]
	if m == nil {
		own := to[sqlite3.Tsqlite3_io_methods](*table)
		m = allocate[methods](tls)
		*m = methods{Tsqlite3_io_methods: *own, own: own}
		m.FxClose, m.FxWrite, m.FxTruncate, m.FxSync = d.function(d.closeFile), d.function(d.writeFile), d.function(d.truncateFile), d.function(d.syncFile)
		d.methods[*table] = m
	}
	*table = address(&m.Tsqlite3_io_methods)
	return code
}

// opened notes the content that a file had before.
func (d *Disk) opened(path string, file uintptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Base(path)
	if d.names[file] = name; d.found[name] {
		return nil
	}
	d.found[name] = true
	content, err := os.ReadFile(path) //nolint:gosec // the file of a test
	if len(content) > 0 {
		d.done = append(d.done, Deed{Kind: Found, Name: name, Data: content})
	}
	return err
}

// on returns the disk of an open file, and the file's name.
func (d *disks) on(file uintptr) (on *Disk, name string) {
	d.mu.Lock()
	on = d.open[file]
	d.mu.Unlock()
	on.mu.Lock()
	defer on.mu.Unlock()
	return on, on.names[file]
}

func own(file uintptr) *sqlite3.Tsqlite3_io_methods {
	return to[methods](to[sqlite3.Tsqlite3_file](file).FpMethods).own
}

func (d *disks) writeFile(tls *libc.TLS, file, data uintptr, n int32, at int64) int32 {
	on, name := d.on(file)
	return on.do(Deed{Kind: Write, Name: name, At: at, Data: bytes.Clone(unsafe.Slice(to[byte](data), n))}, func() int32 {
		return call[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](own(file).FxWrite)(tls, file, data, n, at)
	})
}

func (d *disks) truncateFile(tls *libc.TLS, file uintptr, size int64) int32 {
	on, name := d.on(file)
	return on.do(Deed{Kind: Truncate, Name: name, At: size}, func() int32 {
		return call[func(*libc.TLS, uintptr, int64) int32](own(file).FxTruncate)(tls, file, size)
	})
}

func (d *disks) syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	on, name := d.on(file)
	return on.do(Deed{Kind: Sync, Name: name}, func() int32 {
		return call[func(*libc.TLS, uintptr, int32) int32](own(file).FxSync)(tls, file, flags)
	})
}

func (d *disks) closeFile(tls *libc.TLS, file uintptr) int32 {
	d.mu.Lock()
	on := d.open[file]
	delete(d.open, file)
	d.mu.Unlock()
	on.mu.Lock()
	delete(on.names, file)
	on.mu.Unlock()
	return call[func(*libc.TLS, uintptr) int32](own(file).FxClose)(tls, file)
}

func (d *disks) removeFile(tls *libc.TLS, _, path uintptr, flags int32) int32 {
	really := func() int32 {
		return call[func(*libc.TLS, uintptr, uintptr, int32) int32](d.below.FxDelete)(tls, address(d.below), path, flags)
	}
	full := libc.GoString(path)
	d.mu.Lock()
	on := d.mounted[filepath.Dir(full)]
	d.mu.Unlock()
	if on == nil {
		return really()
	}
	return on.do(Deed{Kind: Remove, Name: filepath.Base(full)}, really)
}

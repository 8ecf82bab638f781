package store_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// disk lies between SQLite and the files of one directory. It notes their writes and syncs, and can
// fail. While it is there, it is SQLite's way to every file of this process; it passes on the files
// of other directories.
type disk struct {
	dir     string
	vfs     *sqlite3.Tsqlite3_vfs
	below   *sqlite3.Tsqlite3_vfs
	methods map[uintptr]*methods // by the table of SQLite's own that they replace
	kept    []any                // functions that SQLite calls
	blocks  []uintptr            // memory of C's

	mu    sync.Mutex
	names map[uintptr]string // of open files
	done  []deed
	fails func(deed) int32 // SQLITE_OK, or the answer in place of the deed
}

type methods struct {
	sqlite3.Tsqlite3_io_methods
	own *sqlite3.Tsqlite3_io_methods
}

// The operations on a file.
const (
	write = iota
	truncate
	flush
	remove
	acknowledge // not to a file: a caller was told that the n-th step is filed
)

// deed is one write, sync or other change of a file, or a step.
type deed struct {
	what int
	name string // of the file, without its directory
	at   int64  // its offset, its new length, or the number of a step
	data []byte
}

// mount puts a disk below a directory, until the test ends.
func mount(t *testing.T, dir string) *disk {
	t.Helper()
	tls := libc.NewTLS()
	below := sqlite3.Xsqlite3_vfs_find(tls, 0)
	d := &disk{
		dir: dir, below: to[sqlite3.Tsqlite3_vfs](below), methods: map[uintptr]*methods{}, names: map[uintptr]string{},
		fails: func(deed) int32 { return sqlite3.SQLITE_OK },
	}
	name, err := libc.CString("disk of " + dir)
	if err != nil {
		t.Fatal(err)
	}
	d.vfs = allocate[sqlite3.Tsqlite3_vfs](d, tls)
	*d.vfs = *d.below
	vfs := d.vfs
	vfs.FpNext, vfs.FzName, vfs.FxOpen, vfs.FxDelete = 0, name, d.function(d.open), d.function(d.remove)
	if code := sqlite3.Xsqlite3_vfs_register(tls, address(d.vfs), 1); code != sqlite3.SQLITE_OK {
		t.Fatalf("register: %d", code)
	}
	t.Cleanup(func() {
		sqlite3.Xsqlite3_vfs_register(tls, below, 1)
		sqlite3.Xsqlite3_vfs_unregister(tls, address(d.vfs))
		libc.Xfree(tls, name)
		for _, block := range d.blocks {
			libc.Xfree(tls, block)
		}
		tls.Close()
	})
	return d
}

// allocate returns memory of C's, for SQLite, until the test ends.
func allocate[T any](d *disk, tls *libc.TLS) *T {
	var zero T
	block := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(zero)))
	d.blocks = append(d.blocks, block)
	return to[T](block)
}

// to, address, call and [disk.function] cross between Go and the C that SQLite was:
// there, a pointer is a number, and so is a function.
func to[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func call[F any](f uintptr) F { return *(*F)(unsafe.Pointer(&f)) }

// function keeps a function from the garbage collector, which sees no numbers.
func (d *disk) function(f any) uintptr {
	d.kept = append(d.kept, f)
	return (*[2]uintptr)(unsafe.Pointer(&f))[1]
}

func (d *disk) open(tls *libc.TLS, _, path, file uintptr, flags int32, out uintptr) int32 {
	code := call[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](d.below.FxOpen)(tls, address(d.below), path, file, flags, out)
	if code != sqlite3.SQLITE_OK || path == 0 || filepath.Dir(libc.GoString(path)) != d.dir {
		return code
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[file] = filepath.Base(libc.GoString(path))
	table := &to[sqlite3.Tsqlite3_file](file).FpMethods
	m := d.methods[*table]
	if m == nil {
		own := to[sqlite3.Tsqlite3_io_methods](*table)
		m = allocate[methods](d, tls)
		*m = methods{Tsqlite3_io_methods: *own, own: own}
		m.FxClose, m.FxWrite, m.FxTruncate, m.FxSync = d.function(d.close), d.function(d.write), d.function(d.truncate), d.function(d.sync)
		d.methods[*table] = m
	}
	*table = address(&m.Tsqlite3_io_methods)
	return code
}

func own(file uintptr) *sqlite3.Tsqlite3_io_methods {
	return to[methods](to[sqlite3.Tsqlite3_file](file).FpMethods).own
}

// do notes a deed and does it, unless it is to fail.
func (d *disk) do(file uintptr, one deed, really func() int32) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if file != 0 {
		one.name = d.names[file]
	}
	if code := d.fails(one); code != sqlite3.SQLITE_OK {
		return code
	}
	d.done = append(d.done, one)
	return really()
}

func (d *disk) write(tls *libc.TLS, file, data uintptr, n int32, at int64) int32 {
	block := bytes.Clone(unsafe.Slice(to[byte](data), n))
	return d.do(file, deed{what: write, at: at, data: block}, func() int32 {
		return call[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](own(file).FxWrite)(tls, file, data, n, at)
	})
}

func (d *disk) truncate(tls *libc.TLS, file uintptr, size int64) int32 {
	return d.do(file, deed{what: truncate, at: size}, func() int32 {
		return call[func(*libc.TLS, uintptr, int64) int32](own(file).FxTruncate)(tls, file, size)
	})
}

func (d *disk) sync(tls *libc.TLS, file uintptr, flags int32) int32 {
	return d.do(file, deed{what: flush}, func() int32 {
		return call[func(*libc.TLS, uintptr, int32) int32](own(file).FxSync)(tls, file, flags)
	})
}

func (d *disk) close(tls *libc.TLS, file uintptr) int32 {
	d.mu.Lock()
	delete(d.names, file)
	d.mu.Unlock()
	return call[func(*libc.TLS, uintptr) int32](own(file).FxClose)(tls, file)
}

func (d *disk) remove(tls *libc.TLS, _, path uintptr, flags int32) int32 {
	really := func() int32 {
		return call[func(*libc.TLS, uintptr, uintptr, int32) int32](d.below.FxDelete)(tls, address(d.below), path, flags)
	}
	if filepath.Dir(libc.GoString(path)) != d.dir {
		return really()
	}
	return d.do(0, deed{what: remove, name: filepath.Base(libc.GoString(path))}, really)
}

func (d *disk) acknowledged(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, deed{what: acknowledge, at: int64(n)})
}

// failWith has every deed fail that a function chooses, from now on.
func (d *disk) failWith(code int32, chosen func(deed) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = func(one deed) int32 {
		if chosen(one) {
			return code
		}
		return sqlite3.SQLITE_OK
	}
}

// sector is the unit that a disk writes whole or not at all, in bytes.
const sector = 512

// crash writes into a directory a possible state of the disk after a power failure, when so many
// deeds were done: of each file the synced content, and any of the other sectors. It returns the
// steps acknowledged by then.
func crash(t *testing.T, done []deed, random *rand.Rand, dir string) (acknowledged []int) {
	t.Helper()
	files := map[string][]byte{}
	synced, folder := certainties(done)
	for i, one := range done {
		if one.what == acknowledge {
			acknowledged = append(acknowledged, int(one.at))
			continue
		}
		last, ever := synced[one.name]
		certain := ever && i <= last
		if one.what == remove {
			certain = i <= folder
		}
		files[one.name] = after(files[one.name], one, certain, random)
	}
	for name, content := range files {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return acknowledged
}

// certainties returns the last sync of each file, and of the folder: SQLite syncs that
// with the first sync of a log or journal that it made.
func certainties(done []deed) (synced map[string]int, folder int) {
	synced, folder = map[string]int{}, -1
	made := map[string]bool{}
	for i, one := range done {
		switch one.what {
		case flush:
			synced[one.name] = i
			if made[one.name] && one.name != filepath.Base(at("")) {
				folder = i
			}
			made[one.name] = false
		case remove:
			made[one.name] = true
		case write:
			if _, ever := synced[one.name]; !ever {
				made[one.name] = true
			}
		}
	}
	return synced, folder
}

// after returns the content of a file after a deed, on disk for certain, or perhaps in part.
func after(content []byte, one deed, certain bool, random *rand.Rand) []byte {
	there := func() bool { return certain || random.IntN(2) == 0 }
	switch one.what {
	case write:
		for begin := 0; begin < len(one.data); begin += sector {
			end := min(begin+sector, len(one.data))
			if there() {
				content = append(content, make([]byte, max(0, int(one.at)+end-len(content)))...)
				copy(content[int(one.at)+begin:], one.data[begin:end])
			}
		}
	case truncate:
		if there() && int(one.at) < len(content) {
			content = content[:one.at]
		}
	case remove:
		if there() {
			content = nil
		}
	}
	return content
}

func ofWAL(one deed) bool { return strings.HasSuffix(one.name, "-wal") }

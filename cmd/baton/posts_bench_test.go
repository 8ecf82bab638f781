package main_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"

	"baton/federation"
	"baton/federation/signing"
	"baton/translate/handofftag"
)

// posters are how many callers file steps at a time.
const posters = 64

// BenchmarkSignedPosts is how many steps a second are filed that their callers signed, one
// request each. The metric x_verify is that rate as a multiple of that of bare Ed25519
// verifications of 1 KiB on all cores, which the callers use too.
//
// The bare server does the least that can be done with the same HTTP server and the same
// database: it verifies what was signed, and files it as one row, in one transaction with
// all that came meanwhile. The metric x_bare is what a gateway leaves of its rate.
func BenchmarkSignedPosts(b *testing.B) {
	var bare float64
	b.Run("bare", func(b *testing.B) {
		gateway, _, _ := benchGateway(b) // to log in at
		callers := logAllIn(b, gateway)
		bare = postAll(b, bareServer(b), callers)
	})
	b.Run("gateway", func(b *testing.B) {
		url, _, pid := benchGateway(b)
		callers := logAllIn(b, url)
		begun := cpuTime(b, pid)
		rate := postAll(b, url, callers)
		reportCPU(b, cpuTime(b, pid)-begun, b.N) // of the gateway
		b.ReportMetric(rate/bare, "x_bare")
	})
}

func logAllIn(b *testing.B, url string) []*caller {
	b.Helper()
	callers := make([]*caller, posters)
	for i := range callers {
		callers[i] = logIn(b, url)
	}
	return callers
}

// postAll has callers post steps that they signed, each one after the other, and returns
// how many a second. It takes the time of the benchmark.
func postAll(b *testing.B, url string, callers []*caller) (perSecond float64) {
	b.Helper()
	verifies := rawVerifies(b)
	requests := make(chan []byte, b.N)
	for i := range b.N {
		from, to := callers[i%posters], callers[(i+1)%posters]
		var text bytes.Buffer
		if err := from.request(b, http.MethodPost, "handoffs", signedOffer(b, from, to.did)).Write(&text); err != nil {
			b.Fatal(err)
		}
		requests <- text.Bytes()
	}
	close(requests)
	conns := make([]net.Conn, posters)
	for i := range conns {
		var err error
		if conns[i], err = (&net.Dialer{}).DialContext(b.Context(), "tcp", strings.TrimPrefix(url, "http://")); err != nil {
			b.Fatal(err)
		}
		defer conns[i].Close()
	}
	var all sync.WaitGroup
	b.ResetTimer()
	for _, conn := range conns {
		all.Go(func() {
			if err := postEach(conn, requests); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	perSecond = float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(perSecond, "steps/s")
	b.ReportMetric(perSecond/verifies, "x_verify")
	return perSecond
}

// postEach sends one request after the other, each of which is to be answered with 201.
func postEach(conn net.Conn, requests <-chan []byte) error {
	const created = "HTTP/1.1 201 "
	rw := bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	body := make([]byte, 2*plainBytes)
	for request := range requests {
		if _, err := rw.Write(request); err != nil {
			return err
		}
		if err := rw.Flush(); err != nil {
			return err
		}
		status, err := rw.Peek(len(created))
		if err != nil {
			return err
		}
		if string(status) != created {
			return fmt.Errorf("answered %q, want %q", status, created)
		}
		if _, err := readAnswer(rw, body); err != nil {
			return err
		}
	}
	return nil
}

// bareServer returns the address of a server that files what it is posted.
func bareServer(b *testing.B) string {
	b.Helper()
	const answer = `{"id":"01K0000000000000000000000","event_id":"01K0000000000000000000000","verb":"offer","state":"offered","lost":[]}`
	verify, file := signedKiB(b), bareRecord(b)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var step struct{ Document, Signature string }
		err := json.NewDecoder(r.Body).Decode(&step)
		if err == nil && !verify() {
			err = errors.New("a good signature is bad")
		}
		if err == nil {
			err = file(step.Document + step.Signature)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, answer) // the caller is gone
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// bareRow is one row that is to be filed.
type bareRow struct {
	text string
	done chan error
}

// bareRecord returns what files a row, with as many others as wait, and returns when it is
// on disk.
func bareRecord(b *testing.B) (file func(text string) error) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(8000)")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE event (n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT"); err != nil {
		b.Fatal(err)
	}
	waiting := make(chan bareRow)
	var over sync.WaitGroup
	over.Go(func() {
		for first := range waiting {
			batch := []bareRow{first}
			for more := true; more && len(batch) < posters; {
				select {
				case row := <-waiting:
					batch = append(batch, row)
				default:
					more = false
				}
			}
			err := fileBatch(b.Context(), db, batch)
			for _, row := range batch {
				row.done <- err
			}
		}
	})
	b.Cleanup(func() { close(waiting); over.Wait(); _ = db.Close() })
	return func(text string) error {
		row := bareRow{text, make(chan error, 1)}
		waiting <- row
		return <-row.done
	}
}

func fileBatch(ctx context.Context, db *sql.DB, batch []bareRow) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	insert, err := tx.PrepareContext(ctx, "INSERT INTO event (body) VALUES (?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, row := range batch {
		if _, err := insert.ExecContext(ctx, row.text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// signedOffer returns the body of an offer that its caller signed.
func signedOffer(b *testing.B, from *caller, to federation.DID) map[string]string {
	b.Helper()
	id := federation.EventID(ulid.Make())
	ev := federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: from.did, To: to, Title: "Cite three sources on X",
		Venue: federation.PrivateVenue(from.did, to), Dialect: federation.HandoffTags,
	}
	ev.Fields, _ = handofftag.Write(ev)
	sealed, err := signing.Seal(b.Context(), from.key, ev)
	if err != nil {
		b.Fatal(err)
	}
	return map[string]string{"document": sealed.Signature.Document, "signature": sealed.Signature.Text}
}

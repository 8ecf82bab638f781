//go:build interop

package main_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the raw commits
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// BenchmarkSubmitPostgres is [BenchmarkSubmit] with the record on a PostgreSQL server of
// its own, on the same machine. The metric x_commit is its rate as a multiple of that of
// bare commits of the same server: one row of 1 KiB each, by as many callers, each on a
// connection of its own.
func BenchmarkSubmitPostgres(b *testing.B) {
	server := postgrestest.Start(b)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			verifies, commits := rawVerifies(b), rawCommits(b, server.Schema(b), callers)
			record, err := registry.OpenPostgres(b.Context(), server.Schema(b), prometheus.NewRegistry())
			if err != nil {
				b.Fatal(err)
			}
			defer record.Close()
			perSecond := submitRate(b, record, callers)
			b.ReportMetric(perSecond/verifies, "x_verify")
			b.ReportMetric(perSecond/commits, "x_commit")
		})
	}
}

// rawCommits returns how many rows of 1 KiB a server commits in a second, each by
// itself.
func rawCommits(b *testing.B, dsn string, callers int) float64 {
	b.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(callers)
	db.SetMaxIdleConns(callers)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE raw (n bigserial PRIMARY KEY, body text NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO raw (body) VALUES ($1)")
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	body := strings.Repeat("x", 1024)
	commitFor := func(length time.Duration) float64 {
		var done atomic.Int64
		var all sync.WaitGroup
		begun := time.Now()
		for range callers {
			all.Go(func() {
				for time.Since(begun) < length {
					if _, err := insert.ExecContext(b.Context(), body); err != nil {
						b.Errorf("commit: %v", err)
						return
					}
					done.Add(1)
				}
			})
		}
		all.Wait()
		return float64(done.Load()) / time.Since(begun).Seconds()
	}
	commitFor(rawTime) // the connections are made
	return commitFor(rawTime)
}

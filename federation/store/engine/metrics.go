package engine

import "github.com/prometheus/client_golang/prometheus"

// metrics tell whether the disk keeps up: slow commits with full batches mean
// that it does not.
type metrics struct {
	commit prometheus.Histogram
	batch  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "baton", Subsystem: "store", Name: "commit_seconds",
			Help:    "Time of one transaction of the record, from its begin until it is on disk.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9), // 0.1 ms, an idle SSD, to 6.5 s, a disk in trouble
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "baton", Subsystem: "store", Name: "batch_size",
			Help:    "Writes that shared one transaction of the record.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 8), // to maxBatch
		}),
	}
	reg.MustRegister(m.commit, m.batch)
	return m
}

package server

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"baton/bridge"
)

// machineGauges measure at each scrape what the gateway needs of its machine: room on the disk, a
// certificate and a clock. It implements [prometheus.Collector].
type machineGauges struct {
	folder string
	tls    *tls.Config
	links  *LinkSet

	disk, certificate, skew *prometheus.Desc
}

// MachineCollector returns the metrics of the machine: of the disk of a folder, of the certificate of a
// listener, nil for none, and of the clocks of other homes.
func (g *Gateway) MachineCollector(folder string, certificate *tls.Config) prometheus.Collector {
	return &machineGauges{
		folder: folder, tls: certificate, links: g.links,
		disk:        prometheus.NewDesc("baton_disk_free_ratio", "Free part of the disk of home.data_dir, 0 to 1.", nil, nil),
		certificate: prometheus.NewDesc("baton_certificate_expiry_timestamp_seconds", "Unix time at which the certificate of [tls] ends.", nil, nil),
		skew:        prometheus.NewDesc("baton_peer_skew_seconds", "By how much the clock of another home differs from the clock here.", []string{"peer"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *machineGauges) Describe(descs chan<- *prometheus.Desc) {
	descs <- g.disk
	descs <- g.certificate
	descs <- g.skew
}

// Collect implements [prometheus.Collector]. A gauge that cannot be measured is missing.
func (g *machineGauges) Collect(metrics chan<- prometheus.Metric) {
	var disk unix.Statfs_t
	if err := unix.Statfs(g.folder, &disk); err == nil && disk.Blocks > 0 {
		metrics <- prometheus.MustNewConstMetric(g.disk, prometheus.GaugeValue, float64(disk.Bavail)/float64(disk.Blocks))
	}
	if g.tls != nil && len(g.tls.Certificates) > 0 && g.tls.Certificates[0].Leaf != nil {
		ends := g.tls.Certificates[0].Leaf.NotAfter
		metrics <- prometheus.MustNewConstMetric(g.certificate, prometheus.GaugeValue, float64(ends.Unix()))
	}
	for home := range able[skewed](g.links) {
		if !home.Heard().IsZero() {
			metrics <- prometheus.MustNewConstMetric(g.skew, prometheus.GaugeValue, home.Skew().Seconds(), home.Name())
		}
	}
}

// skewed is a link to another home, whose clock may differ from the clock here.
type skewed interface {
	HomeLink
	bridge.Hearer
	// Skew returns by how much the clock of the home is behind. It does not block.
	Skew() time.Duration
	// Compared returns the local time of the last clock comparison. It does not block.
	Compared() time.Time
}

package main

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"
)

// newMetrics returns the registry of this process.
func newMetrics() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	v := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "baton", Name: "build_info", Help: "1, with what was built.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// machineGauges measure at each scrape what the gateway needs of its machine: room on the disk, a
// certificate and a clock. It implements [prometheus.Collector].
type machineGauges struct {
	folder string       // of the record
	tls    *tls.Config  // nil without a certificate
	skews  func() skews // of other homes

	disk, certificate, skew *prometheus.Desc
}

// skews is the seconds by which the clocks of other homes differ from the clock here.
type skews map[string]float64

// newMachineGauges returns the gauges of a program that is assembled.
func newMachineGauges(p *program) *machineGauges {
	return &machineGauges{
		folder: p.file.Path("."), tls: p.file.TLSConfig(), skews: p.homes.skews,
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
	for peer, seconds := range g.skews() {
		metrics <- prometheus.MustNewConstMetric(g.skew, prometheus.GaugeValue, seconds, peer)
	}
}

// skews returns the skew of each home that was heard since the start.
func (h *homes) skews() skews {
	all := skews{}
	for _, peer := range h.peers() {
		if !peer.Heard().IsZero() {
			all[peer.Name()] = peer.Skew().Seconds()
		}
	}
	return all
}

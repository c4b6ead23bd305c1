package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics gathers the figures of all parts for /metrics. Parts keep plain
// counters of their own and are asked for them at each scrape, so that a
// message pays for nothing but its own increment.
type Metrics struct {
	registry *prometheus.Registry
}

// Kind says how a sample may change.
type Kind int

// A Counter only grows while the process runs; a Gauge goes both ways; a
// Histogram counts observations by size.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// Sample is one figure at one moment. Names follow Prometheus's customs: the
// prefix emanet_, base units, _total at the end of a counter.
type Sample struct {
	Name   string
	Help   string
	Kind   Kind
	Value  float64  // of a Histogram: the sum of all observations
	Labels []string // alternating label name and value

	// Of a Histogram: Counts[i] observations were at most Bounds[i], Count is all.
	Bounds []float64
	Counts []uint64
	Count  uint64
}

func newMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.Add(func(emit func(Sample)) {
		emit(Sample{Name: "emanet_build_info", Help: "Always 1; the label tells the version.",
			Kind: Gauge, Value: 1, Labels: []string{"version", Version()}})
	})
	return m
}

// Add registers a source of samples. It is called at each scrape, from any
// goroutine, and must emit a (name, labels) pair at most once a call and
// together with all other sources.
func (m *Metrics) Add(source func(emit func(Sample))) {
	m.registry.MustRegister(sampler(source))
}

type sampler func(emit func(Sample))

// Describe sends nothing, which tells Prometheus that the samples are known
// only when they are collected.
func (sampler) Describe(chan<- *prometheus.Desc) {}

func (s sampler) Collect(metrics chan<- prometheus.Metric) {
	s(func(sample Sample) {
		names := make([]string, 0, len(sample.Labels)/2)
		values := make([]string, 0, len(sample.Labels)/2)
		for i := 0; i < len(sample.Labels); i += 2 {
			names, values = append(names, sample.Labels[i]), append(values, sample.Labels[i+1])
		}
		desc := prometheus.NewDesc(sample.Name, sample.Help, names, nil)
		switch sample.Kind {
		case Counter:
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, sample.Value, values...)
		case Gauge:
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, sample.Value, values...)
		case Histogram:
			buckets := make(map[float64]uint64, len(sample.Bounds))
			for i, bound := range sample.Bounds {
				buckets[bound] = sample.Counts[i]
			}
			metrics <- prometheus.MustNewConstHistogram(desc, sample.Count, sample.Value, buckets, values...)
		}
	})
}

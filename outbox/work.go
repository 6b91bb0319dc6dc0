package outbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/acode-dev/acode/session"
)

// workMetrics show what was done in a store, which other processes did: so all of it is read
// from there, and a histogram has the buckets that they counted in.
type workMetrics struct {
	steps, resumes, locks, phases *prometheus.Desc
}

func newWorkMetrics() workMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return workMetrics{
		steps:   desc("acode_work_steps_total", "Attempts of steps that ended, by how; one that nobody could know and that was found out later counts as both.", "outcome"),
		resumes: desc("acode_work_resumes_total", "Resumes by how they found the session and what they led to; one that was killed is counted by the next one.", "mode", "outcome"),
		locks:   desc("acode_work_lock_acquisitions_total", "Attempts to take a session for execution: those that began one, and those that another process or the lock itself prevented.", "outcome"),
		phases:  desc("acode_work_resume_phase_duration_seconds", "Duration of the parts of a resume before its first step.", "phase"),
	}
}

func (m workMetrics) describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.steps, m.resumes, m.locks, m.phases} {
		out <- d
	}
}

func (m workMetrics) collect(out chan<- prometheus.Metric, w session.Work) {
	for _, k := range session.WorkKeys() {
		n := float64(w.Counts[k])
		switch k.Kind {
		case session.WorkSteps:
			out <- prometheus.MustNewConstMetric(m.steps, prometheus.CounterValue, n, k.Outcome)
		case session.WorkResumes:
			out <- prometheus.MustNewConstMetric(m.resumes, prometheus.CounterValue, n, k.Mode, k.Outcome)
		case session.WorkLocks:
			out <- prometheus.MustNewConstMetric(m.locks, prometheus.CounterValue, n, k.Outcome)
		}
	}
	for _, phase := range session.ResumePhases {
		out <- m.histogram(phase, w.Phases[phase])
	}
}

// histogram adds up the buckets, as Prometheus wants them.
func (m workMetrics) histogram(phase session.ResumePhase, times map[int]session.PhaseBucket) prometheus.Metric {
	var n uint64
	var sum float64
	buckets := map[float64]uint64{}
	for i := range len(session.PhaseBounds) + 1 {
		n += times[i].Count
		sum += times[i].Sum.Seconds()
		if i < len(session.PhaseBounds) {
			buckets[session.PhaseBounds[i].Seconds()] = n
		}
	}
	return prometheus.MustNewConstHistogram(m.phases, n, sum, buckets, string(phase))
}

// WatchWork gives m what it shows the work of. What cannot be read is not shown.
func (m *Metrics) WatchWork(read func() (session.Work, error)) {
	if m != nil {
		m.readWork.Store(&read)
	}
}

func (m *Metrics) collectWork(out chan<- prometheus.Metric) {
	read := m.readWork.Load()
	if read == nil {
		return
	}
	if w, err := (*read)(); err == nil {
		m.work.collect(out, w)
	}
}

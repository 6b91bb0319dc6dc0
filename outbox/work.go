package outbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/acode-dev/acode/session"
)

// workReader returns a collector of the work done in a store. Other processes did that
// work, so all counts come from the store, and the histogram has the buckets that they
// counted in.
func (m *Metrics) workReader() reader {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	steps := desc("acode_work_steps_total", "Attempts of steps that ended, by outcome; an unknown outcome that became known later counts as both.", "outcome")
	resumes := desc("acode_work_resumes_total", "Resumes by mode and outcome; the next resume counts one that was killed.", "mode", "outcome")
	locks := desc("acode_work_lock_acquisitions_total", "Attempts to take a session for execution, by outcome: taken, or prevented by another process or by the lock itself.", "outcome")
	phases := desc("acode_work_resume_phase_duration_seconds", "Duration of the parts of a resume before its first step.", "phase")
	return reader{[]*prometheus.Desc{steps, resumes, locks, phases}, func(out chan<- prometheus.Metric) {
		if m.readWork == nil {
			return
		}
		w, err := m.readWork()
		if err != nil {
			return
		}
		for _, k := range session.WorkKeys() {
			n := float64(w.Counts[k])
			switch k.Kind {
			case session.WorkSteps:
				out <- prometheus.MustNewConstMetric(steps, prometheus.CounterValue, n, k.Outcome)
			case session.WorkResumes:
				out <- prometheus.MustNewConstMetric(resumes, prometheus.CounterValue, n, k.Mode, k.Outcome)
			case session.WorkLocks:
				out <- prometheus.MustNewConstMetric(locks, prometheus.CounterValue, n, k.Outcome)
			}
		}
		for _, phase := range session.ResumePhases {
			out <- phaseHistogram(phases, phase, w.Phases[phase])
		}
	}}
}

// phaseHistogram adds up the buckets, because those of Prometheus are cumulative.
func phaseHistogram(desc *prometheus.Desc, phase session.ResumePhase, times map[int]session.PhaseBucket) prometheus.Metric {
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
	return prometheus.MustNewConstHistogram(desc, n, sum, buckets, string(phase))
}

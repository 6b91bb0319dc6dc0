package redact

import (
	"bytes"
	"io"
)

// Writer returns a writer that masks the secrets of each Write before it passes it on in
// one Write. A secret that is spread over two writes is not found: it suits log handlers,
// which write one record at a time. It is as safe for concurrent use as w.
func (r *Redactor) Writer(w io.Writer) io.Writer { return writer{r: r, w: w} }

type writer struct {
	r *Redactor
	w io.Writer
}

// Write implements io.Writer. It reports len(p) on success, since p is what the caller
// wrote.
func (w writer) Write(p []byte) (int, error) {
	masked := w.r.Bytes
	if bytes.HasPrefix(p, []byte("{")) {
		masked = w.r.JSON
	}
	if _, err := w.w.Write(masked(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

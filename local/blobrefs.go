package local

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/acode-dev/acode/session"
)

// payloadRef gives the blob that holds the payload of e.
func payloadRef(e session.Event) string {
	var p payloadBlob
	if json.Unmarshal(e.Payload, &p) != nil {
		return ""
	}
	return p.Blob.Hash
}

// mayName is true for every event of which blobsOf or payloadRef finds something, and for few
// others: to decode all of them would cost more than to read them.
func mayName(e session.Event) bool {
	var parts []string
	switch e.Type {
	case session.SessionCreated, session.InputsChanged:
		return true
	case session.StateChanged, session.ExecutionAcquired:
		parts = []string{`"manifest":"`}
	case session.StepStarted:
		parts = []string{`"kept":"`, `"made":"`}
	case session.StepCompleted, session.StepFailedEvent, session.StepUnknown:
		parts = []string{`"blob":{`, `"manifest":"`}
	}
	return bytes.HasPrefix(e.Payload, []byte(payloadPrefix)) ||
		slices.ContainsFunc(parts, func(part string) bool { return bytes.Contains(e.Payload, []byte(part)) })
}

// blobsOf lists the blobs that an event names.
func blobsOf(e session.Event) []string {
	var hashes []string
	switch e.Type {
	case session.SessionCreated:
		var d session.SessionCreatedData
		hashes = decoded(e, &d, func() []string { return []string{d.Plan.Hash, d.Inputs.Hash} })
	case session.InputsChanged:
		var d session.InputsChangedData
		hashes = decoded(e, &d, func() []string { return []string{d.Inputs.Hash} })
	case session.StateChanged:
		var d session.StateChangedData
		hashes = decoded(e, &d, func() []string { return []string{d.Manifest} })
	case session.ExecutionAcquired:
		var d session.ExecutionAcquiredData
		hashes = decoded(e, &d, func() []string { return []string{d.Manifest} })
	case session.StepStarted:
		var d session.StepStartedData
		hashes = decoded(e, &d, func() []string { return images(d.Files) })
	case session.StepCompleted:
		var d session.StepCompletedData
		hashes = decoded(e, &d, func() []string { return results(d) })
	case session.StepFailedEvent:
		var d session.StepFailedData
		hashes = decoded(e, &d, func() []string { return append(outputs(d.Command), d.Manifest) })
	case session.StepUnknown:
		var d session.StepUnknownData
		hashes = decoded(e, &d, func() []string { return append(outputs(d.Command), d.Manifest) })
	}
	var out []string
	for _, h := range hashes {
		if h != "" {
			out = append(out, h)
		}
	}
	return out
}

func decoded(e session.Event, data any, list func() []string) []string {
	if e.Decode(data) != nil {
		return nil // Apply has said so
	}
	return list()
}

func images(ts []session.Transition) (hashes []string) {
	for _, t := range ts {
		hashes = append(hashes, t.Kept, t.Made)
	}
	return hashes
}

func outputs(c *session.CommandResult) []string {
	if c == nil {
		return nil
	}
	return []string{c.Stdout.Blob.Hash, c.Stderr.Blob.Hash}
}

func results(d session.StepCompletedData) []string {
	hashes := append(outputs(d.Command), d.Manifest)
	if d.Matches != nil {
		hashes = append(hashes, d.Matches.Blob.Hash)
	}
	if d.Capture != nil {
		hashes = append(hashes, d.Capture.Blob.Hash)
	}
	return hashes
}

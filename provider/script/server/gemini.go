package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// gemini is the dialect of Gemini's generateContent.
type gemini struct{}

// geminiPart is a part of a content.
type geminiPart struct {
	Text         string `json:"text"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

// geminiRequest is the body of a request.
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []Tool `json:"functionDeclarations"`
	} `json:"tools"`
}

// decode takes the model and the method from the path.
func (gemini) decode(r *http.Request, body []byte) (a asked, err error) {
	var in geminiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return a, err
	}
	if len(in.Contents) == 0 {
		return a, errors.New("contents is not specified")
	}
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	a.Model, a.stream, a.array = model, method == "streamGenerateContent", r.URL.Query().Get("alt") != "sse"
	for _, p := range in.SystemInstruction.Parts {
		a.System += p.Text
	}
	for _, t := range in.Tools {
		a.Tools = append(a.Tools, t.FunctionDeclarations...)
	}
	var open []Call
	for i, c := range in.Contents {
		m, err := geminiMessage(c, &open, i)
		if err != nil {
			return a, fmt.Errorf("contents[%d]: %w", i, err)
		}
		a.Messages = append(a.Messages, m)
	}
	return a, nil
}

// geminiMessage turns a content into a message. Calls may be without an id; then their
// results come in the order of the calls. open has the calls without a result.
func geminiMessage(c geminiContent, open *[]Call, at int) (m Message, err error) {
	m.Own = c.Role == "model"
	for i, p := range c.Parts {
		m.Text += p.Text
		if f := p.FunctionCall; f != nil {
			args, err := arguments(f.Args)
			if err != nil {
				return m, err
			}
			call := Call{cmp.Or(f.ID, fmt.Sprintf("call-%d-%d", at, i)), f.Name, args}
			m.Calls, *open = append(m.Calls, call), append(*open, call)
		}
		if f := p.FunctionResponse; f != nil {
			at := slices.IndexFunc(*open, func(c Call) bool { return c.Name == f.Name && (f.ID == "" || f.ID == c.ID) })
			if at < 0 {
				return m, fmt.Errorf("no function call is open for the function response of %s", f.Name)
			}
			m.Results = append(m.Results, Result{ID: (*open)[at].ID, Text: geminiText(f.Response)})
			*open = slices.Delete(*open, at, at+1)
		}
	}
	return m, nil
}

// geminiText returns the text of a response. A client puts it into the field "output",
// or passes an MCP result on as it is.
func geminiText(raw json.RawMessage) string {
	var r struct {
		Output  *string `json:"output"`
		Error   *string `json:"error"`
		Content content `json:"content"`
	}
	switch err := json.Unmarshal(raw, &r); {
	case err == nil && r.Output != nil:
		return *r.Output
	case err == nil && r.Error != nil:
		return *r.Error
	case err == nil && r.Content != nil:
		return r.Content.String()
	}
	return string(raw)
}

// part returns a response with some parts; reason is empty for one that is not the
// last.
func (gemini) part(a asked, r Reply, id string, parts []object, reason string) object {
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if reason != "" {
		candidate["finishReason"] = reason
	}
	in, out := tokens(a.size), tokens(r.size())
	return object{"candidates": []object{candidate}, "modelVersion": a.Model, "responseId": id,
		"usageMetadata": object{"promptTokenCount": in, "candidatesTokenCount": out, "totalTokenCount": in + out}}
}

// parts returns the parts of a reply. A call is always one part.
func (gemini) parts(r Reply) (out []object) {
	if r.Text != "" || len(r.Calls) == 0 {
		out = append(out, object{"text": r.Text})
	}
	for _, call := range r.Calls {
		out = append(out, object{"functionCall": object{"id": call.ID, "name": call.Name, "args": call.Arguments}})
	}
	return out
}

func (d gemini) answer(a asked, r Reply) any {
	return d.part(a, r, name(""), d.parts(r), "STOP")
}

// stream sends a part at a time, as events or as a JSON array.
func (d gemini) stream(e *events, a asked, r Reply) {
	id, parts := name(""), d.parts(r)
	var all []object
	for i, p := range parts {
		reason := ""
		if i == len(parts)-1 {
			reason = "STOP"
		}
		all = append(all, d.part(a, r, id, []object{p}, reason))
	}
	if a.array {
		write(e.w, http.StatusOK, all)
		return
	}
	for _, part := range all {
		e.send("", part)
	}
}

func (gemini) refusal(message string) any {
	return object{"error": object{"code": http.StatusBadRequest, "message": message, "status": "INVALID_ARGUMENT"}}
}

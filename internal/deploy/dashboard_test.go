package deploy_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// dashboard holds the keys of deploy/grafana/acode.json that the tests check.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID         int    `json:"id"`
		Type       string `json:"type"`
		Title      string `json:"title"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Grid    grid `json:"gridPos"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

type grid struct{ H, W, X, Y int }

func (g grid) overlaps(o grid) bool {
	return g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H
}

func board(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "acode.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// panels returns every expression of the dashboard, variables included, by its place.
func panels(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	d := board(t)
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			out[fmt.Sprintf("panel %q %d", p.Title, i)] = target.Expr
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			out["variable "+v.Name] = v.Definition
		}
	}
	if len(out) < 20 {
		t.Fatalf("acode.json: got %d expressions, want 20 or more", len(out))
	}
	return out
}

// Panels neither overlap nor share an id.
func TestDashboard(t *testing.T) {
	d := board(t)
	if d.UID == "" || d.Title == "" {
		t.Errorf("dashboard: uid %q, title %q: want both, so that links to it last", d.UID, d.Title)
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %q: id %d is zero or used twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || p.Grid.W < 1 || p.Grid.H < 1 || p.Grid.X+p.Grid.W > 24 {
			t.Errorf("panel %q: got %+v, want a title and a place within 24 columns", p.Title, p.Grid)
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
			t.Errorf("panel %q: %d queries of %q, want some of the chosen data source", p.Title, len(p.Targets), p.Datasource.UID)
		}
		for _, other := range d.Panels[:i] {
			if p.Grid.overlaps(other.Grid) {
				t.Errorf("panel %q overlaps %q", p.Title, other.Title)
			}
		}
	}
}

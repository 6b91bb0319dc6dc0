package migrations_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// A released migration of the server is never edited: servers exist that it made.
func TestServerMigrationsArePinned(t *testing.T) {
	pin(t, migrations.Postgres(), migrations.PostgresVersion, map[string]string{
		"0001_create_delivery.sql": "3e521c437eae6c102b4c4b755a3fd8296154610206907644882d3703dd7a2292",
		"0002_take_copies.sql":     "454f74bc4d34d7121b028fc1f5706878fded602e9f0241dd9e797466d0cc0ce1",
		"0003_add_blobs.sql":       "3a6ae92de24bff8d7f3a56b7d259f266b78f133f498d4002692b5cd74b512f98",
		"0004_verify_chains.sql":   "6f1336c8d17822edd0ff110cefc2190187422a22a9a4dbdaa891b3e4b2730033",
		"0005_add_projections.sql": "ea5eedcbec4f75a00fe08f0e7de46df95cfef2201cf4d7143b66fb32e6fd94bd",
	})
}

// The roles come with the migrations.
func TestPostgresRoles(t *testing.T) {
	roles := migrations.PostgresRoles()
	for _, name := range []string{"acode_owner", "acode_writer", "acode_reader"} {
		if !strings.Contains(roles, name) {
			t.Errorf("PostgresRoles: no %s", name)
		}
	}
}

package migrations_test

import (
	"strings"
	"testing"

	"github.com/acode-dev/acode/migrations"
)

// A released migration of the server is never edited: servers exist that it made.
func TestServerMigrationsArePinned(t *testing.T) {
	pin(t, migrations.Postgres(), migrations.PostgresVersion, map[string]string{
		"0001_create_delivery.sql": "45280742f23d42932faeedffe5ef9b7d84e2d8e795c4e70310c31ad32e9e0387",
		"0002_take_copies.sql":     "0fd5f59486a8d6b232d4f91d64789f717f73d54e894552a832d4e1a8f47081d0",
		"0003_add_blobs.sql":       "3a6ae92de24bff8d7f3a56b7d259f266b78f133f498d4002692b5cd74b512f98",
		"0004_verify_chains.sql":   "6f1336c8d17822edd0ff110cefc2190187422a22a9a4dbdaa891b3e4b2730033",
		"0005_add_projections.sql": "a68218353da4f884b28f1fa9eae565150e5830dabfbec1b1672a64991c80878b",
		"0006_spare_ingest.sql":    "5174a3b6f3cebd3f78b30dfb19ccab2718700849ce7f06d5df960d136ff9a8b3",
		"0007_end_in_time.sql":     "1b42bda41e5ae9736b54c4c111ca5d361737e629defc8aeefb7219f5945c1f88",
		"0008_list_sessions.sql":   "297fc96a0d3b2a18f981e131ee1bbf654a4a3b9c4885873b3ea7ffd38efd1d80",
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

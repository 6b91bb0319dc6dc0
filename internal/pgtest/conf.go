package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings returns the settings of a test server. A server that is not durable survives
// kill -9; only a failure of the machine harms it.
func settings(root string, port int, o Options) map[string]string {
	conf := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    fmt.Sprint(port),
		"unix_socket_directories": root,
		// With mmap, no shared memory outlives the cluster's files.
		"dynamic_shared_memory_type": "mmap",
		"shared_buffers":             "64MB",
		"timezone":                   "UTC",
		"log_line_prefix":            "%m [%p] %q%u@%d ",
		"fsync":                      "off",
		"full_page_writes":           "off",
	}
	if o.Durable {
		conf["fsync"], conf["full_page_writes"] = "on", "on"
	}
	maps.Copy(conf, o.Conf)
	return conf
}

// render writes settings in the format of postgresql.conf.
func render(conf map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&out, "%s = '%s'\n", name, strings.ReplaceAll(conf[name], "'", "''"))
	}
	return out.String()
}

// access returns the rules of pg_hba.conf. The superuser connects over the socket, whose
// folder is private.
func access(scram bool) string {
	method := "trust"
	if scram {
		method = "scram-sha-256"
	}
	return "local all,replication " + superuser + " trust\n" +
		"local all all " + method + "\n" +
		"host all,replication all 127.0.0.1/32 " + method + "\n"
}

// configure writes the settings to the file that the server reads last.
func (s *Server) configure() error {
	if err := s.files.write(filepath.Join(s.data(), "postgresql.conf"), render(s.conf)); err != nil {
		return fmt.Errorf("write postgresql.conf: %w", err)
	}
	return nil
}

// SetConf changes a setting; an empty value restores the server's default. It returns
// when new connections see the change. A setting that needs a restart takes effect at the
// next Start. Connected clients see a change before their next statement.
func (s *Server) SetConf(name, value string) {
	s.tb.Helper()
	if s.conf[name] = value; value == "" {
		delete(s.conf, name)
	}
	if err := s.configure(); err != nil {
		s.tb.Fatalf("set %s: %v", name, err)
	}
	if s.super.pid == 0 {
		return
	}
	if err := s.reload(); err != nil {
		s.tb.Fatalf("set %s: %v", name, err)
	}
}

// reload makes the server read its settings, and waits until it has.
func (s *Server) reload() error {
	const loaded = "SELECT pg_conf_load_time()"
	before, err := s.query(loaded)
	if err != nil {
		return err
	}
	if err := s.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		now, err := s.query(loaded)
		if err != nil {
			return err
		}
		if now != before {
			return s.refused()
		}
		select {
		case <-limit.C:
			return errors.New("the server did not read its settings")
		case <-tick.C:
		}
	}
}

// refused returns an error with the settings that the server refuses. It ignores settings
// that need a restart, because the server reports even valid ones as errors.
func (s *Server) refused() error {
	wrong, err := s.query("SELECT coalesce(string_agg(concat_ws(': ', name, error), ', '), '') " +
		"FROM pg_file_settings LEFT JOIN pg_settings USING (name) WHERE error <> '' AND context IS DISTINCT FROM 'postmaster'")
	if err == nil && wrong != "" {
		err = errors.New(wrong)
	}
	return err
}

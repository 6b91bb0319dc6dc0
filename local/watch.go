package local

import "context"

// Version returns a number that changes with each commit of another process to any
// session. Numbers of different Stores cannot be compared.
func (s *Store) Version(ctx context.Context) (v uint64, err error) {
	err = s.read(ctx, func(q querier) error {
		return storeError("read the version of the data", q.queryRow(ctx, `PRAGMA data_version`, nil, &v))
	})
	return v, err
}

package local

import "context"

// Version is another number after each commit of another process to the store, whatever
// session that is about. Numbers are comparable only with those that the same Store gave.
func (s *Store) Version(ctx context.Context) (v uint64, err error) {
	err = s.read(ctx, func(q querier) error {
		return storeError("read the version of the data", q.queryRow(ctx, `PRAGMA data_version`, nil, &v))
	})
	return v, err
}

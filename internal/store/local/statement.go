package local

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// statement is a prepared statement that is kept. One goroutine uses it.
type statement struct {
	*sqlite3.Stmt
	sql string
}

// text binds bytes as TEXT.
type text []byte

func prepare(conn *sqlite3.Conn, sql string) (*statement, error) {
	s, _, err := conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", sql, err)
	}
	return &statement{s, sql}, nil
}

// bind sets the parameters: int64, uint64, int, string, text, []byte or nil.
func (s *statement) bind(args []any) error {
	for i, a := range args {
		var err error
		switch v := a.(type) {
		case int64:
			err = s.BindInt64(i+1, v)
		case uint64:
			err = s.BindInt64(i+1, int64(v))
		case int:
			err = s.BindInt64(i+1, int64(v))
		case string:
			err = s.BindText(i+1, v)
		case text:
			err = s.BindText(i+1, string(v))
		case []byte:
			if v == nil {
				v = []byte{}
			}
			err = s.BindBlob(i+1, v)
		case nil:
			err = s.BindNull(i + 1)
		default:
			panic(fmt.Sprintf("bind of %T", a))
		}
		if err != nil {
			return fmt.Errorf("bind %q: %w", s.sql, err)
		}
	}
	return nil
}

// exec runs a statement that gives no rows.
func (s *statement) exec(args ...any) error {
	if err := s.bind(args); err != nil {
		return err
	}
	if err := s.Stmt.Exec(); err != nil {
		return fmt.Errorf("%q: %w", s.sql, err)
	}
	return nil
}

// row runs a statement up to its first row. The caller reads the columns and then calls done, also
// when there was no row.
func (s *statement) row(args ...any) (bool, error) {
	if err := s.bind(args); err != nil {
		return false, err
	}
	return s.more()
}

// more steps to the next row.
func (s *statement) more() (bool, error) {
	if s.Step() {
		return true, nil
	}
	if err := s.Err(); err != nil {
		s.done()
		return false, fmt.Errorf("%q: %w", s.sql, err)
	}
	return false, nil
}

// done ends the reading. Its error was already told by the step that met it.
func (s *statement) done() { _ = s.Reset() }

func (s *statement) uint(col int) uint64 { return uint64(s.ColumnInt64(col)) }

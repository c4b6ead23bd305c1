//go:build !unix

package systemd

import (
	"errors"
	"time"
)

func monotonic() (time.Duration, error) { return 0, errors.ErrUnsupported }

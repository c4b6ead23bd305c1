package e2e

import (
	"testing"

	"emanet/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

package config

import (
	"fmt"
	"strings"

	"emanet/internal/spelling"
)

const envPrefix = "EMANET_"

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// foreign lists beginnings of EMANET_ variables that are not ours to judge:
// an orchestrator sets EMANET_SERVICE_… and EMANET_PORT… for a service called
// emanet, and the project's own tests hand theirs on to the broker they start.
var foreign = []string{"EMANET_SERVICE_", "EMANET_PORT", "EMANET_TEST_", "EMANET_E2E_", "EMANET_SOAK", "EMANET_SEED"}

func (s *Source) checkEnvironment(known []string) error {
names:
	for _, name := range sortedKeys(s.environ) {
		for _, prefix := range foreign {
			if strings.HasPrefix(name, prefix) {
				continue names
			}
		}
		if err := checkName(name, known, envName); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses a name that no flag has, in the spelling of its source.
func checkName(name string, known []string, spell func(flag string) string) error {
	spelt := make([]string, len(known))
	for i, flag := range known {
		if spelt[i] = spell(flag); spelt[i] == name {
			return nil
		}
	}
	return fmt.Errorf("unknown key %s; the nearest known one is %s", name, spelling.Nearest(name, spelt))
}

package config

import (
	"fmt"
	"strings"
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
	best, bestDistance := "", 1<<30
	for _, flag := range known {
		spelt := spell(flag)
		if spelt == name {
			return nil
		}
		if d := editDistance(name, spelt); d < bestDistance {
			best, bestDistance = spelt, d
		}
	}
	return fmt.Errorf("unknown key %s; the nearest known one is %s", name, best)
}

// editDistance is the number of single-byte insertions, deletions and
// replacements between a and b (Levenshtein), with one row of the table kept.
// Names longer than maxName count as far from everything: the work is the
// product of the lengths and a file is not trusted to be short.
func editDistance(a, b string) int {
	if len(a) > maxName || len(b) > maxName {
		return maxName
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

const maxName = 100

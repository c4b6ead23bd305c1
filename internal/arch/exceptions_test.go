package arch

// longFiles are the files above the aim of 300 lines, each with the reason why
// it is better whole.
var longFiles = map[string]string{}

// longFunctions are the functions above 70 lines, "file: name", each with the
// reason why it is better whole.
var longFunctions = map[string]string{}

// sleepingTests are the test files that call time.Sleep or receive from
// time.After alone, each with the reason why there is no signal to wait for.
var sleepingTests = map[string]string{
	"e2e/v5_publish_test.go":           "pass: expiries of whole seconds of real time",
	"e2e/soak_test.go":                 "the moments of faults are part of the experiment",
	"internal/auth/login_test.go":      "the time is a test's own (synctest)",
	"internal/journal/turn_test.go":    "a disk that is slow",
	"internal/mqttserver/held_test.go": "a read deadline that strikes while nobody reads",
}

package arch

// longFiles are the files above the aim of 300 lines, each with the reason why
// it is better whole.
var longFiles = map[string]string{}

// longFunctions are the functions above 70 lines, "file: name", each with the
// reason why it is better whole.
var longFunctions = map[string]string{}

// sleepingTests are the test files that call time.Sleep, each with the reason
// why there is no signal to wait for.
var sleepingTests = map[string]string{}

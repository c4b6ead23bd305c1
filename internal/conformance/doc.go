// Package conformance has no code of its own: its tests tie the normative
// statements of both MQTT versions (docs/conformance/*.tsv) to the clause tags
// in the tree, and write docs/conformance/mqtt.md from them.
//
// A tag is [MQTT-3.8.3-4] for MQTT 5.0 and [MQTT311-3.8.3-4] for 3.1.1, whose
// numbers differ. In product code it stands at the line that keeps the
// statement; in a test, anywhere inside it or inside what it uses, it says that
// the test fails when the statement is broken.
package conformance

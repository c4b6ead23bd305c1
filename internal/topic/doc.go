// Package topic owns MQTT topic names and filters: their syntax, what matches
// what, the trie of subscriptions and the ordered set of retained values.
//
// A name is what a message is published to; a filter is what a subscriber asks
// for and may hold wildcards. Both are levels separated by '/'; an empty level
// is a level like any other, so "/a" has two and "a//b" three.
//
//   - [CheckName], [CheckFilter] and [ParseShared] are the only judges of
//     syntax. Everything else in the package takes checked input: it never
//     panics on other strings, but promises nothing about them.
//   - [Match] is the plain reference. [Trie] and [Cursor] are the fast forms and
//     are tested against it.
//   - [Trie] answers "who subscribed to this name?", [Values] answers "which
//     values have a name this filter matches?".
//
// Source: MQTT 5.0 (OASIS 2019) and MQTT 3.1.1 (OASIS 2014), section 4.7, and
// MQTT 5.0 section 4.8 for shared subscriptions.
package topic

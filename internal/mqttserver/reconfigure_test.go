package mqttserver

import (
	"reflect"
	"slices"
	"testing"
)

// What the options do not mark as live stays; whoever adds an option decides here.
func TestReconfigureAdoptsTheLiveOptionsAndNoOthers(t *testing.T) {
	t.Parallel()
	fixed := []string{"MaxPacket", "ReceiveMaximum", "ResponsePrefix", "TopicAliasMax", "TopicAliasMaxOut", "Users", "Logger"}
	s := New(nil, Options{})
	before := *s.live.Load()
	var next Options
	for i := range reflect.TypeFor[Options]().NumField() {
		switch f := reflect.ValueOf(&next).Elem().Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.Uint32:
			f.SetUint(7)
		case reflect.String:
			f.SetString("7")
		case reflect.Pointer: // stays nil: none is live
		default:
			t.Fatalf("an option is a %v, which this test does not know", f.Kind())
		}
	}
	s.Reconfigure(next)
	now := *s.live.Load()
	for i := range reflect.TypeFor[Options]().NumField() {
		name := reflect.TypeFor[Options]().Field(i).Name
		same := func(a, b Options) bool {
			return reflect.ValueOf(a).Field(i).Interface() == reflect.ValueOf(b).Field(i).Interface()
		}
		if slices.Contains(fixed, name) {
			if !same(now, before) {
				t.Errorf("%s has changed", name)
			}
		} else if !same(now, next) {
			t.Errorf("%s has not changed", name)
		}
	}
}

package app

import "runtime/debug"

// version is set at link time by a release build.
var version = "devel"

// Version tells the version, the commit where it is known and whether the tree
// had changes, and the Go release.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	text := version
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			text += "+" + setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			text += "-modified"
		}
	}
	return text + " " + info.GoVersion
}

package main

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

func TestExitCodesTellWhoMustAct(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the parallel subtests, which a defer would not wait for

	tests := []struct {
		name    string
		args    string
		environ []string
		want    int
		says    string // on standard error, or on standard output where want is exitOK
	}{
		{name: "help", args: "serve --help", want: exitOK, says: "(default drop-oldest)"},
		{name: "help as a command", args: "help", want: exitOK, says: "doctor"},
		{name: "help as a command, for another", args: "help user add", want: exitOK, says: "--password-file"},
		{name: "help for a command that there is not", args: "help frobnicate", want: exitUsage, says: "frobnicate"},
		{name: "version", args: "version", want: exitOK, says: "emanet devel"},
		{name: "version as a flag", args: "--version", want: exitOK, says: "emanet devel"},
		{name: "no command", want: exitUsage, says: "serve"},
		{name: "an unknown command", args: "frobnicate", want: exitUsage, says: "frobnicate"},
		{name: "a flag that does not exist yet", args: "serve --tls=x", want: exitUsage, says: "--tls"},
		{name: "a bad value", args: "serve --mqtt-overflow=x", want: exitUsage, says: "--mqtt-overflow"},
		{name: "values that do not go together", args: "serve --max-packet-bytes=1GiB", want: exitUsage, says: "--max-packet-bytes"},
		{name: "a bad variable", args: "serve", environ: []string{"EMANET_MQTT=here"}, want: exitUsage, says: "(set by EMANET_MQTT)"},
		{name: "an unknown variable", args: "serve", environ: []string{"EMANET_MQT=off"}, want: exitUsage, says: "EMANET_MQT;"},
		{name: "a check of nothing", args: "check /nonexistent/data", want: exitFailure, says: "/nonexistent/data"},
		{name: "a doctor without a directory", args: "doctor", want: exitUsage, says: "<dir>"},
		{name: "a doctor with a number that makes no sense", args: "doctor --max-connections=-1 .", want: exitUsage, says: "negative"},
		{name: "a doctor's visit", args: "doctor " + t.TempDir(), want: exitOK, says: "flush"},
		{name: "a doctor with nothing to measure on", args: "doctor /proc/emanet", want: exitFailure, says: "problem"},
		{name: "a check without a directory", args: "check", want: exitUsage, says: "<dir>"},
		{name: "a port in use", args: "serve --mqtt=off --data=" + t.TempDir() + " --http=" + taken.Addr().String(),
			want: exitFailure, says: "another port with --http"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(strings.Fields(test.args), test.environ, &stdout, &stderr)
			said := stderr.String()
			if test.want == exitOK {
				said = stdout.String()
			}
			if code != test.want || !strings.Contains(said, test.says) {
				t.Errorf("exit %d saying %q, want %d and %q", code, said, test.want, test.says)
			}
		})
	}
}

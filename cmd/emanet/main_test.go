package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"emanet/internal/transport/certtest"
)

// A file that a flag names is as much the operator's to mend as the flag.
func TestAFileThatCannotBeUsedAtTheStartIsTheOperatorsToMend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	cert, key := certtest.New(t).Issue("x").Files(dir)
	for name, text := range map[string]string{"bad.toml": "[users.a]\ntags = []\npassword = x\n", "bad": "nonsense\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over := "--mqtts=127.0.0.1:0 --tls-cert=" + cert + " --tls-key=" + key
	for args, says := range map[string]string{
		"--users=" + path("none"):                                           "--users " + path("none") + ": no such file",
		"--users=" + path("bad.toml"):                                       "--users " + path("bad.toml") + ": line 3: ",
		"--users=" + dir:                                                    "--users " + dir + ": it is not a regular file",
		"--mosquitto-passwords=" + path("none"):                             "--mosquitto-passwords " + path("none") + ": no such file",
		"--mosquitto-passwords=" + path("bad"):                              "--mosquitto-passwords " + path("bad") + ": line 1: ",
		"--acl=" + path("none"):                                             "--acl " + path("none") + ": no such file",
		"--acl=" + path("bad"):                                              "--acl " + path("bad") + ": line 1: ",
		over + " --tls-cert=" + path("none"):                                "--tls-cert " + path("none") + ": no such file",
		over + " --tls-cert=" + path("bad"):                                 "--tls-cert " + path("bad") + ": holds no certificate",
		over + " --tls-key=" + path("none"):                                 "--tls-key " + path("none") + ": no such file",
		over + " --tls-key=" + path("bad"):                                  "--tls-key " + path("bad") + ": with " + cert,
		over + " --tls-client-auth=require --tls-client-ca=" + path("none"): "--tls-client-ca " + path("none") + ": no such file",
		over + " --tls-client-auth=require --tls-client-ca=" + path("bad"):  "--tls-client-ca " + path("bad") + ": holds no certificate",
	} {
		var stderr bytes.Buffer
		all := strings.Fields("serve --log-format=json --mqtt=off --http=127.0.0.1:0 --data=" + path("data") + " " + args)
		code := run(all, nil, io.Discard, &stderr)
		reason, last := logLines(t, stderr.String())
		if code != exitUsage || !strings.HasPrefix(reason["err"], says) {
			t.Errorf("%s: exit code %d for %q, not %q", args, code, reason["err"], says)
		}
		if reason["level"] != "ERROR" || reason["msg"] != "cannot start" || last["msg"] != "stopped" {
			t.Errorf("%s: the log says\n%s", args, &stderr)
		}
	}
}

// logLines gives the last two lines, each of which must be JSON as all the others.
func logLines(t *testing.T, text string) (secondLast, last map[string]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		secondLast, last = last, map[string]string{}
		for name, value := range fields {
			last[name] = fmt.Sprint(value)
		}
	}
	return secondLast, last
}

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

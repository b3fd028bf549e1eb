// Prints what Go's own flag package makes of many argument lists, as JSON: the reference for
// vcjob.plugins.goflags. To write it again: go run . >cases.json
package main

import (
	"encoding/json"
	"flag"
	"io"
	"math/rand"
	"os"
	"strings"
)

// values is null where Go has an error, or stops before the end of the list without an error.
type result struct {
	Args   []string       `json:"args"`
	Values map[string]any `json:"values"`
}

func parse(args []string) result {
	set := flag.NewFlagSet("reference", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	master := set.String("master", "master", "")
	port := set.Int("port", 23456, "")
	wait := set.Bool("wait-master-enabled", false, "")
	r := result{Args: args}
	if err := set.Parse(args); err == nil && set.NArg() == 0 {
		r.Values = map[string]any{"master": *master, "port": *port, "wait-master-enabled": *wait}
	}
	return r
}

var numbers = []string{
	"0", "-0", "+0", "1", "+1", "-1", "--1", "+-1", "007", "010", "08", "0x10", "0X1f", "0xg", "0x", "0b101", "0B2", "0b",
	"0o17", "0O7", "0o8", "1_000", "1__0", "_1", "1_", "0_7", "0x_1", "0_x1", "0x1_f", "0b_1", "0_", "-0x10", "+0b1",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
	"0x7fffffffffffffff", "0x8000000000000000", "1e3", "1.0", "", " 1", "1 ", "\n1", "abc", "１２", "٣", "0x１", "1,000", "½",
}

var bools = []string{
	"1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False",
	"", "yes", "no", "on", "off", "tRue", "TRUe", " true", "true ", "2", "-1", "y", "n",
}

var items = []string{
	"--port", "-port", "--port=5", "-port=6", "--port=", "--port==7", "--port=0x10", "--port=x", "---port=1", "port=3", "5", "-5",
	"--master", "-master", "--master=m", "-master=n", "--master=", "--master==a", "--master=a=b", "--Master=m",
	"--wait-master-enabled", "-wait-master-enabled", "--wait-master-enabled=true", "--wait-master-enabled=0",
	"--wait-master-enabled=maybe", "--wait-master-enabled=", "true", "false",
	"-", "--", "---", "-=", "--=", "-=x", "--=x", "", " ", "-h", "--help", "-x", "--unknown", "--unknown=1", "–port=5", "value",
}

func main() {
	var cases []result
	for _, n := range numbers {
		cases = append(cases, parse([]string{"--port=" + n}), parse([]string{"--port", n}))
	}
	for _, b := range bools {
		cases = append(cases, parse([]string{"--wait-master-enabled=" + b}))
	}
	for _, a := range items {
		cases = append(cases, parse([]string{a}))
		for _, b := range items {
			cases = append(cases, parse([]string{a, b}))
		}
	}
	random := rand.New(rand.NewSource(20260101))
	alphabet := []string{"-", "-", "=", "_", "0", "1", "7", "x", "b", "o", "t", "master", "port", "wait-master-enabled", " ", "–"}
	for i := 0; i < 1500; i++ {
		args := []string{}
		for n := random.Intn(5); n >= 0; n-- {
			if random.Intn(2) == 0 {
				args = append(args, items[random.Intn(len(items))])
				continue
			}
			var text strings.Builder
			for m := random.Intn(7); m >= 0; m-- {
				text.WriteString(alphabet[random.Intn(len(alphabet))])
			}
			args = append(args, text.String())
		}
		cases = append(cases, parse(args))
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	os.Stdout.WriteString("[\n")
	for i, c := range cases {
		if i > 0 {
			os.Stdout.WriteString(",")
		}
		out.Encode(c)
	}
	os.Stdout.WriteString("]\n")
}
